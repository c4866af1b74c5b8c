"""What a plugin needs to start beside intact files and grants: programs, tools, configuration and free names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.plan.programs import PROGRAM_PATH, find_program
from paddock.config.local_file import PluginEntry, read_entries
from paddock.core.action import Action
from paddock.core.errors import Conflict, Invalid, PluginError, Problem
from paddock.core.events.plugin_runtime import PluginToolNameCollision
from paddock.core.printable import printable
from paddock.core.semver import Constraint, Version
from paddock.manifest.command import environment_program
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.manifest.read import DirectoryFiles
from paddock.manifest.rules.readiness import find_blockers, find_disallowed_hosts
from paddock.plugins.store.lookup import find_by_name_or_alias, manifest_of
from paddock.plugins.store.node_files import ensure_local_files, find_environment
from paddock.plugins.store.rows import VersionRow, all_grants, current_versions, find_grant, versions_of
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction

if TYPE_CHECKING:
    from paddock.plugins.environments.store import Environment


def check_requirements(store: PluginStore, row: VersionRow) -> None:
    """Check that a version may be started as far as its files are right and its capabilities granted.

    Raises:
        Invalid: something it needs is missing; carries everything that is.
        Conflict: an enabled plugin has a callable of the same full name (`tool_name_collision`).
    """
    manifest, files = manifest_of(row), DirectoryFiles(ensure_local_files(store, row))
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
