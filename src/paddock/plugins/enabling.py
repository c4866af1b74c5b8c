"""Enabling and disabling a plugin for a tenant: the last checks before it may ever run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from paddock.cage.plan.machine import DiskMachine
from paddock.cage.plan.programs import PROGRAM_PATH, find_program
from paddock.config.local import PluginEntry, read_entries
from paddock.core.errors import Conflict, Invalid, Modified, PluginError, Problem
from paddock.core.events_lifecycle import PluginDisabled, PluginEnabled, PluginGranted, PluginModifiedDetected
from paddock.core.printable import printable
from paddock.core.semver import Constraint, Version
from paddock.manifest.capability import Capability
from paddock.manifest.environment_command import environment_program
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.manifest.read import DirectoryFiles
from paddock.manifest.readiness import obstacles
from paddock.plugins.callable_clash import refuse_callable_clash
from paddock.plugins.granting import not_granted, standing_for
from paddock.plugins.local_copy import local_root
from paddock.plugins.local_environment import environment_of
from paddock.plugins.mending import for_tenant
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import find_by_any_name, manifest_of, require_plugin
from paddock.plugins.rows import (
    Grant,
    PluginRow,
    VersionRow,
    find_grant,
    save_grant,
    tree_of,
    versions_of,
)
from paddock.plugins.tree import verify_tree
from paddock.store.database import Transaction

if TYPE_CHECKING:
    from paddock.plugins.environments.shelf import Environment


def enable(store: PluginStore, name: str, acknowledged: Iterable[Capability] = ()) -> VersionRow:
    """Let a plugin run for this tenant. Its files are read and compared first, every time.

    Args:
        store: Where it is installed, as this tenant has it.
        name: Its name or an alias.
        acknowledged: What somebody of this tenant just said yes to. It is granted, as far as the plugin asks for it.

    Raises:
        NeedsConsent: it asks for capabilities that are neither granted nor acknowledged.
        NotFound: it is not installed.
        Modified: its files changed since a person consented.
        Invalid: something it needs is missing; carries everything that is.
        Conflict: an enabled plugin has a callable of the same full name (`tool_name_collision`).
    """
    standing = store.database.read(lambda tx: standing_for(tx, store, name))
    row = standing.row
    require_intact(store, row)
    manifest = manifest_of(row)
    if missing := standing.missing(acknowledged):
        raise not_granted(store.tenant, row, missing)
    files = DirectoryFiles(local_root(store, row))
    problems = [*obstacles(manifest, files), *_missing_programs(store, row, manifest, files), *_unmet(store, manifest)]
    if problems:
        raise Invalid(
            f"{row.plugin} cannot be enabled yet",
            problems,
            code="plugin.cannot_enable",
            hint="mend what is listed, then enable it again",
        )
    refuse_callable_clash(store, manifest)

    def unit(tx: Transaction) -> None:
        # What was checked above must still be what is there: another command may have upgraded it meanwhile.
        if standing_for(tx, store, row.plugin) != standing:
            raise Conflict(
                f"{row.plugin} changed while it was being checked",
                code="plugin.changed_meanwhile",
                hint="run the command again",
            )
        before = standing.grant.capabilities if standing.grant else ()
        new = tuple(str(one) for one in standing.missing())
        save_grant(tx, Grant(store.tenant, row.plugin, True, (*before, *new), row.digest), store.now())
        if new:
            store.publish(tx, PluginGranted(name=row.plugin, version=row.version, capabilities=new, digest=row.digest))
        store.publish(tx, PluginEnabled(name=row.plugin))

    store.database.write(unit)
    return row


def disable(store: PluginStore, name: str, *, given_up: str = "") -> PluginRow:
    """Keep a plugin installed and let it run no more for this tenant.

    Args:
        store: Where it is installed.
        name: Its name or an alias.
        given_up: Why it is a daemon that wants this; empty for a person.
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
        Modified: they differ; names the files and the line that repairs them.
    """
    tree = store.database.read(lambda tx: tree_of(tx, row.plugin, row.version))
    verdict = verify_tree(local_root(store, row), row.digest, expected=tree)
    if verdict.intact:
        return
    found = verdict.difference
    named = [
        *(f"changed {path}" for path in found.changed),
        *(f"missing {path}" for path in found.missing),
        *(f"added {path}" for path in found.added),
    ]
    what = ", ".join(named[:5]) or "unreadable"
    found_digest = verdict.actual.digest if verdict.actual else "unreadable"
    seen = PluginModifiedDetected(name=row.plugin, version=row.version, expected=row.digest, found=found_digest)
    store.database.write(partial(store.used_by(None).publish, event=seen))  # whoever sees it did not do it
    raise Modified(
        f"the files of {row.plugin} {row.version} are not the ones you consented to: {what}",
        hint=f"restore them: paddock plugin repair {row.plugin}",
        details={"changed": list(found.changed), "missing": list(found.missing), "added": list(found.added)},
    )


def _missing_programs(store: PluginStore, row: VersionRow, manifest: Manifest, files: DirectoryFiles) -> list[Problem]:
    """Programs that the plugin's command names and the cage would not find.

    Whether one may be shown depends on more than its name; the cage says so when it is compiled.
    """
    runtime = manifest.runtime
    try:
        environment = environment_of(store, row)
        command = _real_command(manifest, environment) if environment else None
    except PluginError as error:
        return [Problem("runtime", error.message, error.hint, error.error_code)]
    if not isinstance(runtime, CommandRuntime):
        return []
    if command is not None:
        return [] if _is_there(command[0], files) else [_no_program(0, command[0])]
    named = runtime.command[:2] if runtime.command[0].rpartition("/")[2] == "env" else runtime.command[:1]
    return [_no_program(index, program) for index, program in enumerate(named) if not _is_there(program, files)]


def _no_program(index: int, program: str) -> Problem:
    return Problem(
        f"runtime.command[{index}]",
        f"this machine has no program {printable(program)} where plugins look for programs",
        f"install it into one of {PROGRAM_PATH.replace(':', ', ')}",
        "program_missing",
    )


def _real_command(manifest: Manifest, environment: Environment) -> tuple[str, ...] | None:
    """What would be run in an environment, where the manifest names a program of it."""
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime) or environment_program(runtime.command) is None:
        return None
    from paddock.plugins.environments.command import command_for

    return command_for(manifest, environment)


def _is_there(program: str, files: DirectoryFiles) -> bool:
    if program.startswith("./"):
        return True  # looked for with the rest of the package
    if "/" in program and not program.startswith("/"):
        return files.exists(program)
    return find_program(program, PROGRAM_PATH, DiskMachine()) is not None


def _unmet(store: PluginStore, manifest: Manifest) -> list[Problem]:
    """Required tools that are not installed or not enabled, and configuration that is not there."""

    def unit(tx: Transaction) -> list[Problem]:
        found: list[Problem] = []
        for index, tool in enumerate(manifest.requires.tools):
            path = f"requires.tools[{index}]"
            plugin = find_by_any_name(tx, tool.name)
            fitting = [
                row
                for row in (versions_of(tx, plugin.name) if plugin else [])
                if Constraint.parse(tool.constraint).allows(Version.parse(row.version))
            ]
            grant = find_grant(tx, store.tenant, plugin.name) if plugin else None
            if not fitting:
                found.append(
                    Problem(
                        path,
                        f"the tool {tool.name} ({tool.constraint}) is not installed",
                        "install it first",
                        "tool_missing",
                    )
                )
            elif grant is None or not grant.enabled:
                found.append(
                    Problem(
                        path,
                        f"the tool {tool.name} is not enabled",
                        f"paddock plugin enable {tool.name}{for_tenant(store.tenant)}",
                        "tool_disabled",
                    )
                )
        return found

    return [*store.database.read(unit), *missing_configuration(store, manifest)]


def missing_configuration(store: PluginStore, manifest: Manifest) -> list[Problem]:
    required = _required(manifest)
    if not required:
        return []
    entry = read_entries(store.values_file).get(manifest.name)
    return [
        Problem(
            f"system_config.{name}",
            "is required and not set on this machine",
            f"paddock plugin configure {manifest.name} {name}{for_tenant(store.tenant)}",
            "config_missing",
        )
        for name in unfilled(manifest, entry)
    ]


def unfilled(manifest: Manifest, entry: PluginEntry | None) -> list[str]:
    """Fields of its configuration that a plugin requires and that nobody has set."""
    have = set(entry.written) if entry else set[str]()
    return [name for name in _required(manifest) if name not in have]


def _required(manifest: Manifest) -> list[str]:
    schema = manifest.system_config_schema or {}
    return [name for name in schema.get("required", []) if "default" not in schema.get("properties", {}).get(name, {})]
