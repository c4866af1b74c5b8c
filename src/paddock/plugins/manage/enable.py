"""Enables and disables a plugin for a tenant, with the last checks before it may run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.plan.programs import PROGRAM_PATH, find_program
from paddock.config.local_file import PluginEntry, read_entries
from paddock.core.action import Action
from paddock.core.errors import Conflict, Invalid, Modified, NeedsConsent, PluginError, Problem
from paddock.core.events.plugin_management import PluginDisabled, PluginEnabled, PluginGranted, PluginModifiedDetected
from paddock.core.events.plugin_runtime import PluginToolNameCollision
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.core.semver import Constraint, Version
from paddock.manifest.capability import Capability, missing_capabilities
from paddock.manifest.command import environment_program
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.read import DirectoryFiles
from paddock.manifest.rules.readiness import find_blockers, find_disallowed_hosts
from paddock.plugins.package.tree import verify_tree
from paddock.plugins.store.lookup import (
    find_by_name_or_alias,
    manifest_of,
    pinned_version_missing_error,
    require_plugin,
)
from paddock.plugins.store.node_files import ensure_local_files, find_environment
from paddock.plugins.store.rows import (
    Grant,
    PluginRow,
    VersionRow,
    all_grants,
    current_versions,
    find_grant,
    find_version,
    grant_changed_at,
    granted_capabilities,
    save_grant,
    tree_of,
    versions_of,
)
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction

if TYPE_CHECKING:
    from paddock.plugins.environments.store import Environment


DID_NOT_START: Final = "did not start"
"""The recorded reason of a plugin that was enabled only if it starts."""


class GrantState(Struct, frozen=True):
    """A plugin's version in use, and this tenant's grant for it."""

    row: VersionRow
    grant: Grant | None

    def missing_capabilities(self, acknowledged: Iterable[Capability] = ()) -> list[Capability]:
        """Return the requested capabilities that are neither granted by this tenant nor acknowledged."""
        granted = granted_capabilities(self.grant)
        return missing_capabilities([*granted, *acknowledged], requested_capabilities(manifest_of(self.row)))


def find_grant_state(tx: Transaction, store: PluginStore, name: str) -> GrantState:
    """Return the plugin's grant state in the store's tenant.

    Raises:
        NotFound: it is not installed.
        PluginError: the version it is pinned to was removed.
    """
    plugin = require_plugin(tx, name)
    row = find_version(tx, plugin.name, plugin.current_version)
    if row is None:
        raise pinned_version_missing_error(plugin)
    return GrantState(row, find_grant(tx, store.tenant, plugin.name))


class NewlyEnabled(Struct, frozen=True):
    """That a plugin was disabled before, and was enabled: enough to take it back while nobody else decided about it.

    Attributes:
        changed_at: When the grant was stored.
        given_up: Why the plugin was disabled before; empty if a person did it, or nobody.
    """

    plugin: str
    changed_at: str
    given_up: str


def grant_required_error(tenant: Tenant, row: VersionRow, missing: Sequence[Capability]) -> NeedsConsent:
    """Build the error for a plugin that needs more grants of the tenant before it may run."""
    tenant_text = "" if tenant == DEFAULT_TENANT else f", which {tenant} has not granted"
    grants = tuple(map(str, missing))
    return NeedsConsent(
        f"{row.plugin} {row.version} asks for {', '.join(map(str, missing))}{tenant_text}",
        hint="grant each of them",
        action=Action.of("plugin.enable", plugin=row.plugin, tenant=tenant, grants=grants),
        details={"plugin": row.plugin, "capabilities": [str(capability) for capability in missing]},
    )


def domain_not_allowed_error(plugin: str, problems: Sequence[Problem]) -> Invalid:
    """Build the error for a plugin that may not run because it requests hosts outside the allowed domains."""
    return Invalid(
        f"{plugin} requests hosts outside plugins.allowed_domains",
        problems,
        code="plugin.domain_not_allowed",
        hint="add the hosts to plugins.allowed_domains in config.toml",
    )


def check_callable_names(store: PluginStore, manifest: Manifest) -> None:
    """Check that no other enabled plugin has a callable of the same full name.

    Raises:
        Conflict: names the first such plugin; the collision is recorded.
    """
    versions, grants = store.database.read(lambda tx: (current_versions(tx), all_grants(tx, store.tenant)))
    full_names = set(callable_full_names(manifest))
    for name, row in sorted(versions.items()):
        grant = grants.get(name)
        if name == manifest.name or grant is None or not grant.enabled:
            continue
        # Only such names can have a full name in common, so most manifests need not be read.
        if not (name.startswith(f"{manifest.name}.") or manifest.name.startswith(f"{name}.")):
            continue
        for collision in sorted(full_names & set(callable_full_names(manifest_of(row)))):
            event = PluginToolNameCollision(first=name, second=manifest.name, tool=collision)
            store.database.write(lambda tx, event=event: store.publish(tx, event))
            raise Conflict(
                f"{name} already has a callable {collision}",
                code="tool_name_collision",
                hint="disable one of them",
                action=Action.of("plugin.disable", plugin=name, tenant=store.tenant),
                details={"first": name, "second": manifest.name, "tool": collision},
            )


def callable_full_names(manifest: Manifest) -> Iterator[str]:
    """Yield the full names of the plugin's callables, which begin with the plugin's name."""
    for spec in manifest.callables:
        yield f"{manifest.name}.{spec.name}"
    if manifest.whole is not None:
        yield manifest.name


def enable(store: PluginStore, name: str, acknowledged: Iterable[Capability] = ()) -> VersionRow:
    """Enable a plugin for this tenant; see `enable_revocably`."""
    return enable_revocably(store, name, acknowledged)[0]


def enable_revocably(
    store: PluginStore, name: str, acknowledged: Iterable[Capability] = ()
) -> tuple[VersionRow, NewlyEnabled | None]:
    """Enable a plugin for this tenant. Its files are read and compared first, every time.

    Returns:
        The version, and what `disable_not_started` needs; None if the plugin was enabled before.

    Args:
        store: The plugin store, for this tenant.
        name: The plugin's name or alias.
        acknowledged: Capabilities that a person of this tenant just consented to. They are granted as far as the
            plugin requests them.

    Raises:
        NeedsConsent: it requests capabilities that are neither granted nor acknowledged.
        NotFound: it is not installed.
        Modified: its files changed since a person consented.
        Invalid: something it needs is missing; carries everything that is.
        Conflict: an enabled plugin has a callable of the same full name (`tool_name_collision`).
    """
    state = store.database.read(lambda tx: find_grant_state(tx, store, name))
    row = state.row
    require_intact(store, row)
    manifest = manifest_of(row)
    if missing := state.missing_capabilities(acknowledged):
        raise grant_required_error(store.tenant, row, missing)
    files = DirectoryFiles(ensure_local_files(store, row))
    problems = [
        *find_blockers(manifest, files),
        *find_disallowed_hosts(manifest, store.allowed_domains),
        *_missing_programs(store, row, manifest, files),
        *_unmet_requirements(store, manifest),
    ]
    if problems:
        raise Invalid(
            f"{row.plugin} cannot be enabled yet",
            problems,
            code="plugin.cannot_enable",
            hint="fix the listed problems first",
            action=Action.of("plugin.enable", plugin=row.plugin, tenant=store.tenant),
        )
    check_callable_names(store, manifest)

    def unit(tx: Transaction) -> NewlyEnabled | None:
        # The state checked above must still hold: another command may have upgraded it meanwhile.
        if find_grant_state(tx, store, row.plugin) != state:
            raise Conflict(
                f"{row.plugin} changed while it was being checked",
                code="plugin.changed_meanwhile",
                hint="review it again as it is now",
            )
        granted = state.grant.capabilities if state.grant else ()
        newly_granted = tuple(str(one) for one in state.missing_capabilities())
        now = store.now()
        save_grant(tx, Grant(store.tenant, row.plugin, True, (*granted, *newly_granted), row.digest), now)
        if newly_granted:
            store.publish(
                tx, PluginGranted(name=row.plugin, version=row.version, capabilities=newly_granted, digest=row.digest)
            )
        store.publish(tx, PluginEnabled(name=row.plugin))
        if state.grant is not None and state.grant.enabled:
            return None
        return NewlyEnabled(row.plugin, now, state.grant.given_up if state.grant else "")

    return row, store.database.write(unit)


def disable_not_started(store: PluginStore, newly: NewlyEnabled) -> bool:
    """Disable a plugin again that was newly enabled and does not start, unless its grant was changed since.

    Returns:
        Whether the plugin is enabled now.
    """

    def unit(tx: Transaction) -> bool:
        grant = find_grant(tx, store.tenant, newly.plugin)
        if grant is None or not grant.enabled:
            return False  # disabled or removed by somebody else
        if grant_changed_at(tx, store.tenant, newly.plugin) != newly.changed_at:
            return True  # somebody else decided about it meanwhile
        save_grant(tx, replace(grant, enabled=False, given_up=newly.given_up), store.now())
        store.publish(tx, PluginDisabled(name=newly.plugin, reason=DID_NOT_START))
        return False

    return store.database.write(unit)


def disable(store: PluginStore, name: str, *, given_up: str = "") -> PluginRow:
    """Disable a plugin for this tenant and keep it installed.

    Args:
        store: The plugin store.
        name: The plugin's name or alias.
        given_up: Why a daemon disables it; empty for a person.
    """

    def unit(tx: Transaction) -> PluginRow:
        plugin = require_plugin(tx, name)
        grant = find_grant(tx, store.tenant, plugin.name)
        if grant is not None:
            save_grant(tx, replace(grant, enabled=False, given_up=given_up), store.now())
        store.publish(tx, PluginDisabled(name=plugin.name, reason=given_up or "operator"))
        return plugin

    return store.database.write(unit)


def require_intact(store: PluginStore, row: VersionRow) -> None:
    """Read every file and compare with what was consented to.

    Raises:
        Modified: they differ; names the files and the command that repairs them.
    """
    tree = store.database.read(lambda tx: tree_of(tx, row.plugin, row.version))
    verdict = verify_tree(ensure_local_files(store, row), row.digest, expected=tree)
    if verdict.intact:
        return
    difference = verdict.difference
    change_lines = [
        *(f"changed {path}" for path in difference.changed),
        *(f"missing {path}" for path in difference.missing),
        *(f"added {path}" for path in difference.added),
    ]
    summary = ", ".join(change_lines[:5]) or "unreadable"
    actual_digest = verdict.actual.digest if verdict.actual else "unreadable"
    event = PluginModifiedDetected(name=row.plugin, version=row.version, expected=row.digest, found=actual_digest)
    # recorded as the host's: the principal only detected it
    store.database.write(partial(store.acting_as(None).publish, event=event))
    raise Modified(
        f"the files of {row.plugin} {row.version} are not the ones you consented to: {summary}",
        action=Action.of("plugin.repair", plugin=row.plugin),
        details={
            "changed": list(difference.changed),
            "missing": list(difference.missing),
            "added": list(difference.added),
        },
    )


def _missing_programs(store: PluginStore, row: VersionRow, manifest: Manifest, files: DirectoryFiles) -> list[Problem]:
    """Return problems for programs that the plugin's command names and the cage would not find.

    Whether a program may be shown depends on more than its name; that is checked when the cage is compiled.
    """
    runtime = manifest.runtime
    try:
        environment = find_environment(store, row)
        command = _environment_command(manifest, environment) if environment else None
    except PluginError as error:
        return [error.as_problem("runtime")]
    if not isinstance(runtime, CommandRuntime):
        return []
    if command is not None:
        return [] if _program_exists(command[0], files) else [_missing_program_problem(0, command[0])]
    programs = runtime.command[:2] if runtime.command[0].rpartition("/")[2] == "env" else runtime.command[:1]
    return [
        _missing_program_problem(index, program)
        for index, program in enumerate(programs)
        if not _program_exists(program, files)
    ]


def _missing_program_problem(index: int, program: str) -> Problem:
    return Problem(
        f"runtime.command[{index}]",
        f"this machine has no program {printable(program)} where plugins look for programs",
        f"install it into one of {PROGRAM_PATH.replace(':', ', ')}",
        "program_missing",
    )


def _environment_command(manifest: Manifest, environment: Environment) -> tuple[str, ...] | None:
    """Return the command as resolved in an environment, if the manifest names a program of it."""
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime) or environment_program(runtime.command) is None:
        return None
    from paddock.plugins.environments.requirements import resolve_command

    return resolve_command(manifest, environment)


def _program_exists(program: str, files: DirectoryFiles) -> bool:
    if program.startswith("./"):
        return True  # checked with the rest of the package
    if "/" in program and not program.startswith("/"):
        return files.exists(program)
    return find_program(program, PROGRAM_PATH, DiskFilesystem()) is not None


def _unmet_requirements(store: PluginStore, manifest: Manifest) -> list[Problem]:
    """Return problems for required tools that are not installed or not enabled, and for missing configuration."""

    def unit(tx: Transaction) -> list[Problem]:
        problems: list[Problem] = []
        for index, tool in enumerate(manifest.requires.tools):
            path = f"requires.tools[{index}]"
            plugin = find_by_name_or_alias(tx, tool.name)
            fitting = [
                row
                for row in (versions_of(tx, plugin.name) if plugin else [])
                if Constraint.parse(tool.constraint).allows(Version.parse(row.version))
            ]
            grant = find_grant(tx, store.tenant, plugin.name) if plugin else None
            if not fitting:
                problems.append(
                    Problem(
                        path,
                        f"the tool {tool.name} ({tool.constraint}) is not installed",
                        "install it first",
                        "tool_missing",
                    )
                )
            elif grant is None or not grant.enabled:
                problems.append(
                    Problem(
                        path,
                        f"the tool {tool.name} is not enabled",
                        code="tool_disabled",
                        action=Action.of("plugin.enable", plugin=tool.name, tenant=store.tenant),
                    )
                )
        return problems

    return [*store.database.read(unit), *missing_configuration(store, manifest)]


def missing_configuration(store: PluginStore, manifest: Manifest) -> list[Problem]:
    required = _required_fields(manifest)
    if not required:
        return []
    entry = read_entries(store.config_file).get(manifest.name)
    return [
        Problem(
            f"system_config.{name}",
            "is required and not set on this machine",
            code="config_missing",
            action=Action.of("plugin.configure", plugin=manifest.name, field=name, tenant=store.tenant),
        )
        for name in unset_required_fields(manifest, entry)
    ]


def unset_required_fields(manifest: Manifest, entry: PluginEntry | None) -> list[str]:
    """Return the configuration fields that a plugin requires and that are not set."""
    set_fields = set(entry.raw_values) if entry else set[str]()
    return [name for name in _required_fields(manifest) if name not in set_fields]


def _required_fields(manifest: Manifest) -> list[str]:
    schema = manifest.system_config_schema or {}
    return [name for name in schema.get("required", []) if "default" not in schema.get("properties", {}).get(name, {})]
