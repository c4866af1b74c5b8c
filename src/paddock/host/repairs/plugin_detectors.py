"""What somebody has to see to about plugins: each function looks for one cause in the facts of one plugin. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Iterable
from urllib.parse import quote

from paddock.core.errors import Modified
from paddock.core.ids import Tenant
from paddock.host.repairs.facts import MissingSecret, PluginFacts, RepairFacts
from paddock.host.repairs.repair import Repair, RepairButton, RepairCommand, RepairLink, Severity
from paddock.plugins.manage.repair_text import tenant_option

_MODIFIED, _VERSION_MISSING = "modified", "version missing"
_DOWN_STATES = ("crashed", "failed")


def detect_plugin_repairs(facts: RepairFacts) -> Generator[Repair, None, None]:
    """Everything about the plugins of a tenant."""
    for plugin in facts.plugins:
        for detect in PLUGIN_DETECTORS:
            yield from detect(plugin, facts.tenant)


def detect_modified_files(one: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if one.state == _MODIFIED:
        yield Repair(
            "plugin.modified",
            one.name,
            Severity.BROKEN,
            f"Somebody changed the files of {one.name}",
            f"The files of version {one.version} are not the ones that were agreed to{_modified_files_text(one)}.",
            "It does not run, and no call reaches it, until its files are as they were.",
            (
                RepairButton("restore", "Restore its files", host_only=True),
                _plugin_link(one),
                RepairCommand(f"paddock plugin repair {shlex.quote(one.name)}"),
            ),
            mark=one.files,
        )


def detect_missing_version(one: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if one.state == _VERSION_MISSING:
        pinned = one.pinned or one.version
        yield Repair(
            "plugin.version_gone",
            one.name,
            Severity.BROKEN,
            f"{one.name} is held at a version that is not installed",
            f"It is pinned to {pinned}, which was removed.",
            "It does not run until it may use another version, or has that one again.",
            (
                RepairButton(
                    "unpin", "Use the latest version", f"Let {one.name} use its latest version?", host_only=True
                ),
                RepairCommand(f"paddock plugin pin {shlex.quote(one.name)} --off"),
            ),
        )


def detect_given_up(one: PluginFacts, tenant: Tenant) -> Iterable[Repair]:
    if one.given_up and one.state not in (_MODIFIED, _VERSION_MISSING):
        yield Repair(
            "plugin.given_up",
            one.name,
            Severity.BROKEN,
            f"{one.name} failed too often and was switched off",
            one.given_up,
            "Nobody can call it until it is started again. Look at its log for the reason first.",
            (
                RepairButton("enable", "Start it again"),
                _log_link(one),
                _plugin_link(one),
                RepairCommand(f"paddock plugin enable {shlex.quote(one.name)}{tenant_option(tenant)}"),
            ),
        )


def detect_not_running(one: PluginFacts, tenant: Tenant) -> Iterable[Repair]:
    """It should run and does not; not where its files, or what it is configured with, say why already."""
    if (
        not one.enabled
        or not one.reason
        or one.state in (_MODIFIED, _VERSION_MISSING)
        or one.given_up
        or _explained_by_configuration(one)
    ):
        return
    back = one.runtime == "crashed"
    yield Repair(
        "plugin.down",
        one.name,
        Severity.NOTICE if back else Severity.BROKEN,
        f"{one.name} crashed" if back else f"{one.name} does not run",
        one.reason + (f". {one.hint}" if one.hint else ""),
        "It is started again by itself; calls fail until it is back."
        if back
        else "Nobody can call it until it is started again.",
        (
            RepairButton("restart", "Restart"),
            _log_link(one) if one.runtime in _DOWN_STATES else _plugin_link(one),
            RepairCommand(f"paddock plugin enable {shlex.quote(one.name)}{tenant_option(tenant)}"),
        ),
        mark=f"{one.runtime} {one.code or one.reason}",
    )


def detect_missing_configuration(one: PluginFacts, tenant: Tenant) -> Iterable[Repair]:
    if not one.enabled or not (one.unfilled or one.unset):
        return
    named = [f"{field} is not set" for field in one.unfilled]
    named += [f"{field} refers to {', '.join(names)}, which is not set" for field, names in one.unset.items()]
    first = next(iter((*one.unfilled, *one.unset)))
    yield Repair(
        "plugin.configuration",
        one.name,
        Severity.BROKEN,
        f"{one.name} is not fully configured",
        "; ".join(named) + ".",
        "It cannot start with what it has.",
        (
            RepairLink(f"/plugins/{quote(one.name, safe='')}/configuration", "Configure it"),
            RepairCommand(
                f"paddock plugin configure {shlex.quote(one.name)} {shlex.quote(first)}{tenant_option(tenant)}"
            ),
        ),
    )


def detect_unused_configuration(one: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if one.enabled and one.unused_config and not (one.unfilled or one.unset):
        yield Repair(
            "plugin.configuration_unused",
            one.name,
            Severity.NOTICE,
            f"{one.name} does not use its new configuration",
            one.unused_config,
            "It goes on with the configuration that it had.",
            (RepairButton("restart", "Restart"), _plugin_link(one)),
        )


def detect_missing_secrets(one: PluginFacts, tenant: Tenant) -> Iterable[Repair]:
    for secret in one.secrets if one.enabled else ():
        needed_by = ", ".join(secret.operations)
        yield Repair(
            "secret.missing",
            f"{one.name}/{secret.name}",
            Severity.NOTICE if secret.personal_too else Severity.BROKEN,
            f"{one.name} needs the secret {secret.name}",
            f"{secret.name} is not set, and {needed_by} cannot run without it.",
            _missing_secret_meaning(secret),
            (
                RepairLink(f"/secrets/set?name={quote(secret.name, safe='')}", "Set it"),
                RepairCommand(f"paddock secret set {shlex.quote(secret.name)}{tenant_option(tenant)}"),
            ),
        )


def detect_waiting_definitions(one: PluginFacts, _tenant: Tenant) -> Iterable[Repair]:
    if one.waiting and one.state not in (_MODIFIED, _VERSION_MISSING):
        many = "1 thing" if one.waiting == 1 else f"{one.waiting:,} things"
        yield Repair(
            "plugin.definitions",
            one.name,
            Severity.NOTICE,
            f"{one.name} changed what it says about itself",
            f"{many} that it says now {'waits' if one.waiting == 1 else 'wait'} for somebody to accept.",
            "What changed is kept from everybody, models included, until somebody has read and accepted it.",
            (_plugin_link(one, "Review the changes"),),
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


def _explained_by_configuration(one: PluginFacts) -> bool:
    """Whether it does not run for what is not configured, which is told by itself."""
    return bool(one.unfilled or one.unset) and one.code.startswith(("config", "plugin.cannot", "invalid"))


def _modified_files_text(one: PluginFacts) -> str:
    """What was found when it was to start, where it was."""
    _, found, which = one.reason.partition("consented to: ")
    return f": {which}" if found and one.code == Modified.code else ""


def _missing_secret_meaning(secret: MissingSecret) -> str:
    if secret.personal_too:
        return "Calls of people who have not set one of their own are refused."
    return "These calls are refused before they run."


def _plugin_link(one: PluginFacts, words: str = "Look at the plugin") -> RepairLink:
    return RepairLink(f"/plugins/{quote(one.name, safe='')}", words)


def _log_link(one: PluginFacts) -> RepairLink:
    return RepairLink(f"/plugins/{quote(one.name, safe='')}/logs", "Read its log")
