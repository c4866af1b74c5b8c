"""Installed plugins: whether their files are the ones that a person consented to, and whether one was given up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.errors import PaddockError
from paddock.host.doctor.check import STORE_TIMEOUT_S, Check, CheckStatus
from paddock.manifest.definition_flags import DefinitionFlag

if TYPE_CHECKING:
    from paddock.plugins.store.store import PluginStore
from collections.abc import Mapping

from paddock.core.errors import Problem
from paddock.host.doctor.daemon_check import DaemonQuery

if TYPE_CHECKING:
    from paddock.secrets.key_stores import WrappingKeyRecord
from paddock.core.errors import Invalid

_WHY_MODIFIED = "A plugin whose files changed never loads."
_WHY_SUSPICIOUS_TEXT = "Models act on what they read there. It is a hint and no verdict: look at the words."
_URGENT_FLAGS = (
    DefinitionFlag.HIDDEN_CHARACTERS,
    DefinitionFlag.HIDDEN_TEXT,
    DefinitionFlag.HIDDEN_INSTRUCTIONS,
    DefinitionFlag.SHADOWING,
)
_MAX_PLUGIN_LINES = 10


def check_plugins(directories: Directories, settings: Settings | None) -> Check:
    """Look at every installed plugin as `plugin list` does, without waiting long for whoever holds the store."""
    # Imported here: only a machine with plugins needs it.
    from paddock.plugins.manage.repair_text import upgrade_or_enable_hint
    from paddock.plugins.store.listing import InstalledState, list_plugins
    from paddock.plugins.store.store import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _plugins_unchecked("the settings have to be mended first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("plugins", CheckStatus.OK, "none are installed")
        with open_plugin_store(directories, settings, wait=STORE_TIMEOUT_S) as store:
            listed = list_plugins(store)
            odd = _suspicious_text(store, [one.plugin.name for one in listed if one.state is InstalledState.ENABLED])
    except PaddockError as error:
        return _plugins_unchecked(error.message)
    modified = [one.plugin.name for one in listed if one.state is InstalledState.MODIFIED]
    given_up = {one.plugin.name: one.given_up for one in listed if one.given_up}
    reasons = tuple(f"{name} was given up: it {why}" for name, why in given_up.items())[:_MAX_PLUGIN_LINES]
    if modified:
        found = f"{len(modified)} of {len(listed)} modified: {', '.join(modified)}"
        fix = " && ".join(f"paddock plugin repair {name}" for name in modified[:_MAX_PLUGIN_LINES])
        return Check("plugins", CheckStatus.WARN, found, _WHY_MODIFIED, fix, "plugin.modified", reasons)
    if given_up:
        found = f"{len(given_up)} of {len(listed)} failed too often and were disabled: {', '.join(given_up)}"
        first = next(iter(given_up))
        why = f"It is not started again until a person sees to it: {upgrade_or_enable_hint(first)}."
        return Check("plugins", CheckStatus.WARN, found, why, f"paddock plugin logs {first}", "plugin.failed", reasons)
    if odd:
        found = f"{len(odd)} of {len(listed)} say something odd to models: {', '.join(odd)}"
        told = tuple(line for lines in odd.values() for line in lines)[:_MAX_PLUGIN_LINES]
        fix = f"paddock plugin tools {next(iter(odd))}"
        return Check("plugins", CheckStatus.WARN, found, _WHY_SUSPICIOUS_TEXT, fix, "plugin.flagged", (*reasons, *told))
    return Check("plugins", CheckStatus.OK, f"{len(listed)} installed, each as you consented to it")


def _suspicious_text(store: PluginStore, names: Iterable[str]) -> dict[str, list[str]]:
    """Of plugins that may run: what nobody should leave unread. Names that others have too are no trouble."""
    from paddock.plugins.tool_pinning.tools import load_tools

    found: dict[str, list[str]] = {}
    for name in names:
        told = [f"{name}: {hint}" for hint in load_tools(store, name).scan_findings() if hint.flag in _URGENT_FLAGS]
        if told:
            found[name] = told
    return found


def _plugins_unchecked(reason: str) -> Check:
    return Check("plugins", CheckStatus.WARN, f"could not be looked at: {reason}", _WHY_MODIFIED)


_MAX_CONFIG_HINTS = 10
_VARIABLE_UNSET = "config.variable_unset"
_WHY_CONFIGURATION = "A plugin does not start with a configuration that refers to what is not set."


def check_configuration(
    directories: Directories, settings: Settings | None, environ: Mapping[str, str], ask: DaemonQuery | None
) -> Check:
    """Look at the configuration of every enabled plugin, of all tenants. Nothing is opened."""
    # Imported here: only a machine with plugins needs it.
    from paddock.plugins.store.store import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _configuration_unchecked("the settings have to be mended first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("configuration", CheckStatus.OK, "no plugin has any")
        with open_plugin_store(directories, settings, wait=STORE_TIMEOUT_S) as store:
            problems = _unset_references(store, environ)
    except PaddockError as error:
        return _configuration_unchecked(error.message)
    if ask is not None and any(one.code == _VARIABLE_UNSET for one in problems) and _daemon_runs(directories, ask):
        # A daemon has variables of its own, and says by itself which plugin does not run.
        problems = [one for one in problems if one.code != _VARIABLE_UNSET]
    if not problems:
        return Check("configuration", CheckStatus.OK, "refers to nothing that is not set")
    found = str(problems[0]) if len(problems) == 1 else f"refers to {len(problems)} things that are not set"
    fix = "; ".join(dict.fromkeys(one.hint for one in problems[:_MAX_CONFIG_HINTS]))
    details = tuple(map(str, problems)) if len(problems) > 1 else ()
    return Check("configuration", CheckStatus.WARN, found, _WHY_CONFIGURATION, fix, problems[0].code, details)


def _unset_references(store: PluginStore, environ: Mapping[str, str]) -> list[Problem]:
    from paddock.config.local_file import read_entries
    from paddock.plugins.install.config_secrets import find_unset_references
    from paddock.plugins.store.rows import grants_by_tenant

    found: list[Problem] = []
    for tenant, theirs in store.database.read(grants_by_tenant).items():
        own = store.for_tenant(tenant)
        for name, entry in read_entries(own.config_file).items():
            if name in theirs and theirs[name].enabled:
                found += [one for field in find_unset_references(own, entry, environ).values() for one in field]
    return found


def _daemon_runs(directories: Directories, ask: DaemonQuery) -> bool:
    try:
        return ask(directories) is not None
    except PaddockError:
        return True  # one that does not answer, which is a finding of its own


def _configuration_unchecked(reason: str) -> Check:
    return Check("configuration", CheckStatus.WARN, f"could not be looked at: {reason}", _WHY_CONFIGURATION)


_WHY_SECRETS = "Without its key nobody opens a secret, and no other key is made in its place."


def check_secrets(directories: Directories, settings: Settings | None, environ: Mapping[str, str]) -> Check:
    """Find the keys that secrets are sealed under, as a call would. Nobody is asked for a passphrase."""
    # Imported here: only a home with secrets needs it.
    from paddock.core.clock import SystemRandom
    from paddock.secrets.rows import KEY_REPLACED, active_key, inactive_keys
    from paddock.secrets.wrapping_keys import build_wrapping_keys
    from paddock.store.database import embedded_path, open_direct

    if settings is None:
        return _secrets_unchecked("the settings have to be mended first")
    where = settings.store.url or directories.database_file
    try:
        path = embedded_path(where)
        if path is not None and not path.is_file():
            return Check("secrets", CheckStatus.OK, "none are kept yet")
        with open_direct(where, wait=STORE_TIMEOUT_S) as database:
            in_use, before = database.read(lambda tx: (active_key(tx), inactive_keys(tx, KEY_REPLACED)))
    except PaddockError as error:
        return _secrets_unchecked(error.message)
    if in_use is None:
        return Check("secrets", CheckStatus.OK, "none are kept yet")
    keys = build_wrapping_keys(
        environ,
        directories.state,
        SystemRandom(),
        preferred=settings.secrets.key,
        passphrase_file=settings.secrets.passphrase_file,
    )
    for note in (in_use, *before):
        if _key_held_elsewhere(note, settings, environ):
            continue
        try:
            keys.find(note)
        except PaddockError as error:
            return Check("secrets", CheckStatus.FAIL, error.message, _WHY_SECRETS, error.hint, error.error_code)
    if _key_held_elsewhere(in_use, settings, environ):
        found = f"sealed under the key {in_use.id}, a {in_use.source} that is not given here"
    else:
        found = f"sealed under the key {in_use.id}, which is here ({in_use.source})"
    return Check("secrets", CheckStatus.OK, found)


def _key_held_elsewhere(note: WrappingKeyRecord, settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether others than whoever types this are meant to have the key: a service of systemd, or a person's head."""
    if note.source == "credential":
        return not environ.get("CREDENTIALS_DIRECTORY")
    return note.source == "passphrase" and not settings.secrets.passphrase_file


def _secrets_unchecked(reason: str) -> Check:
    return Check("secrets", CheckStatus.WARN, f"could not be looked at: {reason}", _WHY_SECRETS)


_WHY_EFFECTS = "Nobody makes such a call again under its key before somebody has found out, a daemon or a person."


def check_effects(directories: Directories, settings: Settings | None) -> Check:
    """Count what is in doubt, without waiting long for whoever holds the store."""
    # Imported here: only a machine with plugins needs it.
    from paddock.gate.idempotency.records import count_in_doubt_by_tenant
    from paddock.plugins.manage.repair_text import tenant_option
    from paddock.plugins.store.store import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _effects_unchecked("the settings have to be mended first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("effects", CheckStatus.OK, "nothing is in doubt")
        with open_plugin_store(directories, settings, wait=STORE_TIMEOUT_S) as store:
            found = store.database.read(count_in_doubt_by_tenant)
    except PaddockError as error:
        return _effects_unchecked(error.message)
    if not found:
        return Check("effects", CheckStatus.OK, "nothing is in doubt")
    count = sum(found.values())
    lines = tuple(f"{tenant}: {of:,}" for tenant, of in sorted(found.items())) if len(found) > 1 else ()
    return Check(
        "effects",
        CheckStatus.WARN,
        f"{'1 call' if count == 1 else f'{count:,} calls'} may have happened, and nobody knows",
        _WHY_EFFECTS,
        "; ".join(f"paddock run doubt list{tenant_option(tenant)}" for tenant in sorted(found)),
        "effect.in_doubt",
        lines,
    )


def _effects_unchecked(reason: str) -> Check:
    return Check("effects", CheckStatus.WARN, f"could not be looked at: {reason}", _WHY_EFFECTS)


_WHY_RULES = (
    "No rules are taken from files with a mistake: every call is refused, and no daemon starts. "
    "One that runs goes on with the rules that it has."
)
_MAX_RULE_PROBLEMS = 10


def check_rules(directories: Directories, settings: Settings | None) -> Check:
    """Read them as a call does."""
    # Imported here: the engine takes longer to load than the other probes.
    from paddock.policy.load import load_policy
    from paddock.policy.rules import SHIPPED_ORIGIN

    if settings is None:
        return Check("rules", CheckStatus.WARN, "could not be looked at: the settings have to be mended first")
    try:
        rules = load_policy(directories, settings.policy).rules.rules
    except Invalid as error:
        details = tuple(map(str, error.problems[:_MAX_RULE_PROBLEMS]))
        return Check(
            "rules", CheckStatus.FAIL, error.message, _WHY_RULES, "paddock policy check", error.error_code, details
        )
    except PaddockError as error:
        return Check("rules", CheckStatus.FAIL, error.message, _WHY_RULES, error.hint, error.error_code)
    own = sum(rule.origin != SHIPPED_ORIGIN for rule in rules)
    return Check("rules", CheckStatus.OK, f"{len(rules)} hold, {own} of them your own")
