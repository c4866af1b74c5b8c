"""Checks this home: installed plugins, their configuration, secrets, effects in doubt, and policy rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.config.variables import VARIABLE_UNSET
from paddock.core.action import Action
from paddock.core.errors import Invalid, PaddockError, Problem, Unavailable
from paddock.host.doctor.check import STORE_TIMEOUT_S, Check, CheckStatus
from paddock.host.doctor.daemon_check import DaemonQuery
from paddock.manifest.definition_flags import DefinitionFlag

if TYPE_CHECKING:
    from paddock.plugins.store.listing import InstalledPlugin
    from paddock.plugins.store.store import PluginStore
    from paddock.secrets.key_stores import WrappingKeyRecord

_WHY_MODIFIED = "A plugin whose files changed never loads."
_WHY_NO_ENVIRONMENT = "The packages that it runs on are missing here, or were changed; it does not start without them."
_WHY_SUSPICIOUS_TEXT = "Models act on what they read there. It is a hint and no verdict: look at the words."
_URGENT_FLAGS = (
    DefinitionFlag.HIDDEN_CHARACTERS,
    DefinitionFlag.HIDDEN_TEXT,
    DefinitionFlag.HIDDEN_INSTRUCTIONS,
    DefinitionFlag.SHADOWING,
)
_MAX_PLUGIN_LINES = 10


def check_plugins(directories: Directories, settings: Settings | None) -> Check:
    """Check the files of every installed plugin as `plugin list` does, with a bounded wait for the store."""
    # Imported here: needed only on a machine with plugins.
    from paddock.plugins.store.listing import InstalledState, list_plugins
    from paddock.plugins.store.rows import UPGRADE_FIRST_HINT
    from paddock.plugins.store.store import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _plugins_unchecked("the settings have to be fixed first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("plugins", CheckStatus.OK, "none are installed")
        with open_plugin_store(directories, settings, wait=STORE_TIMEOUT_S, only_connection=False) as store:
            installed = list_plugins(store)
            enabled = [plugin.plugin.name for plugin in installed if plugin.state is InstalledState.ENABLED]
            unbuilt = [plugin.plugin.name for plugin in installed if _lacks_environment(store, plugin)]
            suspicious = _suspicious_text(store, enabled)
    except PaddockError as error:
        return _plugins_unchecked(error.message)
    modified = [plugin.plugin.name for plugin in installed if plugin.state is InstalledState.MODIFIED]
    given_up = {plugin.plugin.name: plugin.given_up for plugin in installed if plugin.given_up}
    reasons = tuple(f"{name} was given up: it {reason}" for name, reason in given_up.items())[:_MAX_PLUGIN_LINES]
    if modified:
        found = f"{len(modified)} of {len(installed)} modified: {', '.join(modified)}"
        repairs = tuple(Action.of("plugin.repair", plugin=name) for name in modified[:_MAX_PLUGIN_LINES])
        return Check("plugins", CheckStatus.WARN, found, _WHY_MODIFIED, "", "plugin.modified", reasons, actions=repairs)
    if unbuilt:
        found = f"{len(unbuilt)} of {len(installed)} without what they run on: {', '.join(unbuilt)}"
        repairs = tuple(Action.of("plugin.repair", plugin=name) for name in unbuilt[:_MAX_PLUGIN_LINES])
        code = "environment.missing"
        return Check("plugins", CheckStatus.WARN, found, _WHY_NO_ENVIRONMENT, "", code, reasons, actions=repairs)
    if given_up:
        found = f"{len(given_up)} of {len(installed)} are disabled after repeated crashes: {', '.join(given_up)}"
        first = next(iter(given_up))
        why = f"Paddock does not restart it; {UPGRADE_FIRST_HINT}."
        actions = tuple(Action.of(kind, plugin=first) for kind in ("plugin.logs", "plugin.enable"))
        return Check("plugins", CheckStatus.WARN, found, why, "", "plugin.failed", reasons, actions)
    if suspicious:
        found = f"{len(suspicious)} of {len(installed)} have suspicious texts for models: {', '.join(suspicious)}"
        findings = tuple(line for lines in suspicious.values() for line in lines)[:_MAX_PLUGIN_LINES]
        actions = (Action.of("plugin.tools", plugin=next(iter(suspicious))),)
        details = (*reasons, *findings)
        return Check("plugins", CheckStatus.WARN, found, _WHY_SUSPICIOUS_TEXT, "", "plugin.flagged", details, actions)
    return Check("plugins", CheckStatus.OK, f"{len(installed)} installed, each as you consented to it")


def _lacks_environment(store: PluginStore, plugin: InstalledPlugin) -> bool:
    """Whether a plugin was installed with packages from a registry that are not on this machine as they were built."""
    from paddock.plugins.store.node_files import find_environment

    if plugin.version is None or store.shared:
        return False  # on a shared store, each node builds its own when it needs it
    try:
        find_environment(store, plugin.version)
    except Unavailable:
        return True
    return False


def _suspicious_text(store: PluginStore, names: Iterable[str]) -> dict[str, list[str]]:
    """Return urgent scan findings by enabled plugin. Name collisions with other plugins do not count."""
    from paddock.plugins.tool_pinning.tools import load_tools

    suspicious: dict[str, list[str]] = {}
    for name in names:
        findings = [
            f"{name}: {finding}" for finding in load_tools(store, name).scan_findings() if finding.flag in _URGENT_FLAGS
        ]
        if findings:
            suspicious[name] = findings
    return suspicious


def _plugins_unchecked(reason: str) -> Check:
    return Check("plugins", CheckStatus.WARN, f"could not be checked: {reason}", _WHY_MODIFIED)


_MAX_CONFIG_HINTS = 10
_WHY_CONFIGURATION = "A plugin does not start if its configuration refers to a secret or variable that is not set."


def check_configuration(
    directories: Directories, settings: Settings | None, environ: Mapping[str, str], query: DaemonQuery | None
) -> Check:
    """Check the configuration of every enabled plugin, of all tenants, for unset references. Opens no secret."""
    # Imported here: needed only on a machine with plugins.
    from paddock.plugins.store.store import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _configuration_unchecked("the settings have to be fixed first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("configuration", CheckStatus.OK, "no plugin has any")
        with open_plugin_store(directories, settings, wait=STORE_TIMEOUT_S, only_connection=False) as store:
            problems = _unset_references(store, environ)
    except PaddockError as error:
        return _configuration_unchecked(error.message)
    variables_unset = any(problem.code == VARIABLE_UNSET for problem in problems)
    if query is not None and variables_unset and _daemon_runs(directories, query):
        # A daemon has environment variables of its own, and reports plugins that do not run.
        problems = [problem for problem in problems if problem.code != VARIABLE_UNSET]
    if not problems:
        return Check("configuration", CheckStatus.OK, "every secret and variable that it refers to is set")
    found = (
        str(problems[0]) if len(problems) == 1 else f"refers to {len(problems)} secrets or variables that are not set"
    )
    fix = "; ".join(dict.fromkeys(problem.hint for problem in problems[:_MAX_CONFIG_HINTS] if problem.hint))
    actions = tuple(problem.action for problem in problems[:_MAX_CONFIG_HINTS] if problem.action)
    details = tuple(map(str, problems)) if len(problems) > 1 else ()
    return Check("configuration", CheckStatus.WARN, found, _WHY_CONFIGURATION, fix, problems[0].code, details, actions)


def _unset_references(store: PluginStore, environ: Mapping[str, str]) -> list[Problem]:
    from paddock.config.local_file import read_entries
    from paddock.plugins.install.config_secrets import find_unset_references
    from paddock.plugins.store.rows import grants_by_tenant

    problems: list[Problem] = []
    for tenant, grants in store.database.read(grants_by_tenant).items():
        tenant_store = store.for_tenant(tenant)
        for name, entry in read_entries(tenant_store.config_file).items():
            if name in grants and grants[name].enabled:
                for field_problems in find_unset_references(tenant_store, entry, environ).values():
                    problems += field_problems
    return problems


def _daemon_runs(directories: Directories, query: DaemonQuery) -> bool:
    try:
        return query(directories) is not None
    except PaddockError:
        return True  # it runs but does not answer, which its own check reports


def _configuration_unchecked(reason: str) -> Check:
    return Check("configuration", CheckStatus.WARN, f"could not be checked: {reason}", _WHY_CONFIGURATION)


_WHY_SECRETS = "Secrets cannot be opened without their key, and Paddock does not create another one in its place."


def check_secrets(directories: Directories, settings: Settings | None, environ: Mapping[str, str]) -> Check:
    """Check that the wrapping keys of secrets are available, as a call would need them. Never asks for a passphrase."""
    # Imported here: needed only in a home with secrets.
    from paddock.core.clock import SystemRandom
    from paddock.secrets.rows import KEY_REPLACED, active_key, inactive_keys
    from paddock.secrets.wrapping_keys import build_wrapping_keys
    from paddock.store.database import embedded_path, open_direct

    if settings is None:
        return _secrets_unchecked("the settings have to be fixed first")
    address = settings.store.url or directories.database_file
    try:
        path = embedded_path(address)
        if path is not None and not path.is_file():
            return Check("secrets", CheckStatus.OK, "none are kept yet")
        with open_direct(address, wait=STORE_TIMEOUT_S, only_connection=False) as database:
            active, replaced = database.read(lambda tx: (active_key(tx), inactive_keys(tx, KEY_REPLACED)))
    except PaddockError as error:
        return _secrets_unchecked(error.message)
    if active is None:
        return Check("secrets", CheckStatus.OK, "none are kept yet")
    keys = build_wrapping_keys(
        environ,
        directories.state,
        SystemRandom(),
        preferred=settings.secrets.key,
        passphrase_file=settings.secrets.passphrase_file,
    )
    for record in (active, *replaced):
        if _key_held_elsewhere(record, settings, environ):
            continue
        try:
            keys.find(record)
        except PaddockError as error:
            return Check.of_error("secrets", error, _WHY_SECRETS)
    if _key_held_elsewhere(active, settings, environ):
        found = f"sealed under the key {active.id}, a {active.source} that is not given here"
    else:
        found = f"sealed under the key {active.id}, which is here ({active.source})"
    return Check("secrets", CheckStatus.OK, found)


def _key_held_elsewhere(record: WrappingKeyRecord, settings: Settings, environ: Mapping[str, str]) -> bool:
    """Return whether the key is meant to be held by others than this user: a systemd service, or a person's memory."""
    if record.source == "credential":
        return not environ.get("CREDENTIALS_DIRECTORY")
    return record.source == "passphrase" and not settings.secrets.passphrase_file


def _secrets_unchecked(reason: str) -> Check:
    return Check("secrets", CheckStatus.WARN, f"could not be checked: {reason}", _WHY_SECRETS)


_WHY_EFFECTS = (
    "Such a call is not repeated with its idempotency key until a daemon or a person has settled the outcome."
)


def check_effects(directories: Directories, settings: Settings | None) -> Check:
    """Count effects in doubt, with a bounded wait for the store."""
    # Imported here: needed only on a machine with plugins.
    from paddock.gate.idempotency.record_queries import count_in_doubt_by_tenant
    from paddock.plugins.store.store import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _effects_unchecked("the settings have to be fixed first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("effects", CheckStatus.OK, "no call has an unknown outcome")
        with open_plugin_store(directories, settings, wait=STORE_TIMEOUT_S, only_connection=False) as store:
            counts = store.database.read(count_in_doubt_by_tenant)
    except PaddockError as error:
        return _effects_unchecked(error.message)
    if not counts:
        return Check("effects", CheckStatus.OK, "no call has an unknown outcome")
    count = sum(counts.values())
    details = tuple(f"{tenant}: {number:,}" for tenant, number in sorted(counts.items())) if len(counts) > 1 else ()
    return Check(
        "effects",
        CheckStatus.WARN,
        f"{'1 call has' if count == 1 else f'{count:,} calls have'} an unknown outcome",
        _WHY_EFFECTS,
        "",
        "effect.in_doubt",
        details,
        tuple(Action.of("call.unresolved.list", tenant=tenant) for tenant in sorted(counts)),
    )


def _effects_unchecked(reason: str) -> Check:
    return Check("effects", CheckStatus.WARN, f"could not be checked: {reason}", _WHY_EFFECTS)


_WHY_RULES = (
    "Rules from files with mistakes are not loaded: every call is denied, and no daemon starts. "
    "A running daemon keeps its current rules."
)
_MAX_RULE_PROBLEMS = 10


def check_rules(directories: Directories, settings: Settings | None) -> Check:
    """Check the policy rules by loading them as a call does."""
    # Imported here: the policy engine takes longer to load than the other checks.
    from paddock.policy.load import load_policy
    from paddock.policy.rules import SHIPPED_ORIGIN

    if settings is None:
        return Check("rules", CheckStatus.WARN, "could not be checked: the settings have to be fixed first")
    try:
        rules = load_policy(directories, settings.policy).rules.rules
    except Invalid as error:
        details = tuple(map(str, error.problems[:_MAX_RULE_PROBLEMS]))
        return Check.of_error("rules", error, _WHY_RULES, details)
    except PaddockError as error:
        return Check.of_error("rules", error, _WHY_RULES)
    custom = sum(rule.origin != SHIPPED_ORIGIN for rule in rules)
    return Check("rules", CheckStatus.OK, f"{len(rules)} rules loaded ({custom} custom)")
