"""Detects repairs of plugins: each function looks for one cause in the facts of one plugin. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from urllib.parse import quote

from paddock.core.errors import Modified
from paddock.core.ids import Tenant
from paddock.core.printable import count_text
from paddock.host.repairs.facts import MissingSecret, PluginFacts, RepairFacts
from paddock.host.repairs.repair import Repair, RepairButton, RepairLink, Severity

_MODIFIED, _VERSION_MISSING = "modified", "version missing"
_DOWN_STATES = ("crashed", "failed")


def detect_plugin_repairs(facts: RepairFacts) -> Generator[Repair, None, None]:
    """Detect all repairs of a tenant's plugins."""
    for plugin in facts.plugins:
        for detect in PLUGIN_DETECTORS:
            yield from detect(plugin, facts.tenant)


def detect_modified_files(plugin: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if plugin.state == _MODIFIED:
        yield Repair(
            "plugin.modified",
            plugin.name,
            Severity.BROKEN,
            f"The files of {plugin.name} were modified",
            f"The files of version {plugin.version} are not the ones that were consented to"
            f"{_modified_files_text(plugin)}.",
            "It does not run, and no call reaches it, until its files are as they were.",
            (
                RepairButton("restore", "Restore its files", host_only=True),
                _plugin_link(plugin),
            ),
            cause_key=plugin.files,
        )


def detect_missing_version(plugin: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if plugin.state == _VERSION_MISSING:
        pinned = plugin.pinned or plugin.version
        yield Repair(
            "plugin.version_gone",
            plugin.name,
            Severity.BROKEN,
            f"{plugin.name} is pinned to a version that is not installed",
            f"It is pinned to {pinned}, which was removed.",
            "It does not run until it may use another version, or has that one again.",
            (
                RepairButton(
                    "unpin", "Use the latest version", f"Let {plugin.name} use its latest version?", host_only=True
                ),
            ),
        )


def detect_given_up(plugin: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if plugin.given_up and plugin.state not in (_MODIFIED, _VERSION_MISSING):
        yield Repair(
            "plugin.given_up",
            plugin.name,
            Severity.BROKEN,
            f"{plugin.name} is disabled after repeated crashes",
            plugin.given_up,
            "It cannot be called until it is started again. Look at its log for the reason first.",
            (
                RepairButton("enable", "Start it again"),
                _log_link(plugin),
                _plugin_link(plugin),
            ),
            since=plugin.given_up_at,
        )


def detect_not_running(plugin: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    """Detect a plugin that should run and does not, unless its files or its configuration already explain it."""
    if (
        not plugin.enabled
        or not plugin.reason
        or plugin.state in (_MODIFIED, _VERSION_MISSING)
        or plugin.given_up
        or _explained_by_configuration(plugin)
    ):
        return
    restarting = plugin.runtime == "crashed"
    yield Repair(
        "plugin.down",
        plugin.name,
        Severity.NOTICE if restarting else Severity.BROKEN,
        f"{plugin.name} crashed" if restarting else f"{plugin.name} does not run",
        plugin.reason + (f". {plugin.hint}" if plugin.hint else ""),
        "It restarts automatically; calls fail until then."
        if restarting
        else "It cannot be called until it is started again.",
        (
            RepairButton("restart", "Restart"),
            _log_link(plugin) if plugin.runtime in _DOWN_STATES else _plugin_link(plugin),
        ),
        cause_key=f"{plugin.runtime} {plugin.code or plugin.reason}",
    )


def detect_missing_configuration(plugin: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if not plugin.enabled or not (plugin.unfilled or plugin.unset):
        return
    problems = [f"{field} is not set" for field in plugin.unfilled]
    problems += [f"{field} refers to {', '.join(names)}, which is not set" for field, names in plugin.unset.items()]

    yield Repair(
        "plugin.configuration",
        plugin.name,
        Severity.BROKEN,
        f"{plugin.name} is not fully configured",
        "; ".join(problems) + ".",
        "It cannot start without them.",
        (RepairLink(f"/plugins/{quote(plugin.name, safe='')}/settings", "Configure it"),),
    )


def detect_unused_configuration(plugin: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if plugin.enabled and plugin.unused_config and not (plugin.unfilled or plugin.unset):
        yield Repair(
            "plugin.configuration_unused",
            plugin.name,
            Severity.NOTICE,
            f"{plugin.name} does not use its new configuration",
            plugin.unused_config,
            "It keeps its previous configuration.",
            (RepairButton("restart", "Restart"), _plugin_link(plugin)),
        )


def detect_missing_secrets(plugin: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    for secret in plugin.secrets if plugin.enabled else ():
        needed_by = ", ".join(secret.operations)
        yield Repair(
            "secret.missing",
            f"{plugin.name}/{secret.name}",
            Severity.NOTICE if secret.personal_too else Severity.BROKEN,
            f"{plugin.name} needs the secret {secret.name}",
            f"{secret.name} is not set, and {needed_by} cannot run without it.",
            _missing_secret_meaning(secret),
            (RepairLink(f"/secrets/set?name={quote(secret.name, safe='')}", "Set it"),),
        )


def detect_waiting_definitions(plugin: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if plugin.waiting and plugin.state not in (_MODIFIED, _VERSION_MISSING):
        amount = count_text(plugin.waiting, "definition")
        yield Repair(
            "plugin.definitions",
            plugin.name,
            Severity.NOTICE,
            f"{plugin.name} changed its definitions",
            f"{amount} {'has' if plugin.waiting == 1 else 'have'} to be reviewed and accepted.",
            "Changed definitions are withheld from callers and models until a person has accepted them.",
            (_plugin_link(plugin, "Review the changes"),),
        )


PLUGIN_DETECTORS: tuple[Callable[[PluginFacts, Tenant], Iterable[Repair]], ...] = (
    detect_modified_files,
    detect_missing_version,
    detect_given_up,
    detect_not_running,
    detect_missing_configuration,
    detect_unused_configuration,
    detect_missing_secrets,
    detect_waiting_definitions,
)


def _explained_by_configuration(plugin: PluginFacts) -> bool:
    """Return whether missing configuration, which is reported separately, keeps it from running."""
    return bool(plugin.unfilled or plugin.unset) and plugin.code.startswith(("config", "plugin.cannot", "invalid"))


def _modified_files_text(plugin: PluginFacts) -> str:
    """Return which files the start check found modified, if it ran."""
    _, found, files = plugin.reason.partition("consented to: ")
    return f": {files}" if found and plugin.code == Modified.code else ""


def _missing_secret_meaning(secret: MissingSecret) -> str:
    if secret.personal_too:
        return "Calls of people who have not set one of their own are refused."
    return "These calls are refused before they run."


def _plugin_link(plugin: PluginFacts, label: str = "Look at the plugin") -> RepairLink:
    return RepairLink(f"/plugins/{quote(plugin.name, safe='')}", label)


def _log_link(plugin: PluginFacts) -> RepairLink:
    return RepairLink(f"/plugins/{quote(plugin.name, safe='')}/logs", "Read its log")
