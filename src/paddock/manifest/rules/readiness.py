"""Finds what keeps a valid plugin from being enabled."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from paddock.core.action import Action
from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import check_schema, join_path
from paddock.manifest.capability import HostService
from paddock.manifest.command import LOCK_FILES, environment_program
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, PythonRuntime, SchemaFile
from paddock.manifest.network import NetworkAccess
from paddock.manifest.package_files import PackageFiles
from paddock.manifest.registry_launcher import RegistryCommand, fetched_at_start
from paddock.manifest.rules.field_rules import find_auth_fields

FETCHED_AT_START = "fetched_at_start"


def find_blockers(manifest: Manifest, files: PackageFiles) -> list[Problem]:
    """Return everything that keeps this plugin from being enabled; it may still be installed and listed."""
    return [*_program_blockers(manifest, files), *_fetch_blockers(manifest, files), *_schema_blockers(manifest, files)]


def find_disallowed_hosts(manifest: Manifest, allowed_domains: Iterable[str]) -> list[Problem]:
    """Return a problem for each host that a plugin of the OSQR dialect requests outside the allowed domains.

    `host:http` without any `net:` reaches every public host, so it counts as a request for all of them.
    """
    if manifest.dialect is not Dialect.OSQR:
        return []
    allowed = tuple(allowed_domains)
    networks = [one for one in manifest.capabilities if isinstance(one, NetworkAccess)]
    unlimited = [one for one in manifest.capabilities if one == HostService("http") and not networks]
    return [
        Problem(
            "capabilities",
            f"{capability} leads to hosts outside plugins.allowed_domains ({', '.join(allowed) or 'empty'})",
            "add the host to plugins.allowed_domains in config.toml",
            "domain_not_allowed",
        )
        for capability in (*networks, *unlimited)
        if not isinstance(capability, NetworkAccess) or capability.host not in allowed
    ]


def _program_blockers(manifest: Manifest, files: PackageFiles) -> list[Problem]:
    match manifest.runtime:
        case None:
            native = manifest.dialect is Dialect.NATIVE
            instruction = "add a 'runtime:'" if native else "put a paddock.yaml with a 'runtime:' beside the manifest"
            return [
                Problem(
                    "runtime",
                    "names no program to run",
                    f"{instruction} (command, python, module or url)",
                    "no_runtime",
                )
            ]
        case CommandRuntime(command=command):
            program = command[0]
            program_in_environment = environment_program(command)
            if program_in_environment is not None and not any(files.exists(name) for name in LOCK_FILES):
                return [
                    Problem(
                        "runtime.command[0]",
                        f"{printable(program)} is a program of packages that nothing pins",
                        f"put a {' or a '.join(LOCK_FILES)} beside the manifest",
                        "no_lock",
                    )
                ]
            if program.startswith("./") and not files.exists(program[2:]):
                return [
                    Problem(
                        "runtime.command[0]",
                        f"{printable(program)} is not in the package",
                        "add the file",
                        "program_missing",
                    )
                ]
        case PythonRuntime(entrypoints=entrypoints):
            modules = {target.partition(":")[0] for target in entrypoints.values()}
            missing = {module for module in modules if files.module_source(module) is None}
            return [
                Problem(
                    join_path(("runtime", "python", name)),
                    f"the module {printable(target.partition(':')[0])} is not in the package",
                    "add it",
                    "program_missing",
                )
                for name, target in entrypoints.items()
                if target.partition(":")[0] in missing
            ]
        case _:
            pass
    return []


def _fetch_blockers(manifest: Manifest, files: PackageFiles) -> list[Problem]:
    """Report a command that would fetch the server at start, and wait for the registry until it times out."""
    launch = fetched_at_start(manifest)
    if launch is None:
        return []
    if not isinstance(launch, RegistryCommand):
        message = f"cannot start in a cage: {launch.why}"
        hint = "install a package of the server (npm:NAME or pypi:NAME), or name the program itself"
        install = Action.of("plugin.install", source="npm:NAME")
        return [Problem("runtime.command", message, hint, "launcher", action=install)]
    if launch.registry == "npm" and files.exists(f"node_modules/{launch.name}/package.json"):
        return []  # bundled: nothing is fetched
    options_hint = ", with its arguments and variables" if launch.arguments or manifest.system_config_schema else ""
    return [
        Problem(
            "runtime.command",
            f"would fetch {printable(launch.package, 120)} when it starts, and nothing can be fetched in a cage",
            f"install that package itself{options_hint}",
            FETCHED_AT_START,
            action=Action.of("plugin.install", source=launch.source, name=manifest.name),
        )
    ]


def _schema_blockers(manifest: Manifest, files: PackageFiles) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[tuple[SchemaFile, bool]] = set()  # callables may share a file, which is read once
    checks_credentials = manifest.dialect in (
        Dialect.NATIVE,
        Dialect.SHU,
    )  # in other dialects such a parameter may differ
    for spec in manifest.callables:
        for key, schema in (("input_schema", spec.input_schema), ("output_schema", spec.output_schema)):
            parameters = checks_credentials and key == "input_schema"
            if isinstance(schema, SchemaFile) and (schema, parameters) not in seen:
                seen.add((schema, parameters))
                path = join_path((spec.name, key))
                problems.extend(schema_file_problems(schema, files, path, parameters=parameters))
    return problems


def schema_file_problems(
    schema: SchemaFile, files: PackageFiles, path: str, *, parameters: bool = False
) -> list[Problem]:
    """Return what is wrong with a schema file of the package; `parameters` may not ask for credentials."""
    data = files.read(schema.path)
    if data is None:
        return [
            Problem(path, f"the package has no file {printable(schema.path)}", "add the schema file", "schema_missing")
        ]
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return [Problem(path, f"{printable(schema.path)} is not JSON", "fix the file", "schema_malformed")]
    problems = check_schema(value, path)
    if problems or not parameters:
        return problems
    return [
        Problem(f"{path}.{join_path(location)}", message, hint, "auth_field")
        for location, message, hint in find_auth_fields(value)
    ]
