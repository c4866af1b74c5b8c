"""What a worker is told when it starts, and the program that it is. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from paddock.cage.plan.environment import ISOLATED_KINDS, ISOLATED_PYTHON_FLAGS
from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.programs import PROGRAM_PATH, find_program
from paddock.cage.spec import WORKER_SCRIPT
from paddock.manifest.capability import Capability
from paddock.manifest.model import Manifest, PluginKind, PythonRuntime

WORKER_VARIABLE = "PADDOCK_WORKER"  # the SDK reads it
MIN_PYTHON = (3, 11)  # that the SDK runs on
_VERSIONED_NAME = re.compile(r"python(\d+)\.(\d+)")


def worker_environment(
    manifest: Manifest, runtime: PythonRuntime, root: str, granted: Iterable[Capability], site: Sequence[str] = ()
) -> dict[str, str]:
    """The variable that tells a worker whose code to run.

    Args:
        manifest: The plugin's.
        runtime: Its entry points.
        root: Where its files are.
        granted: What a person granted.
        site: Further directories to import from: the plugin's own environment.
    """
    told = {
        "name": manifest.name,
        "version": manifest.version,
        "dialect": manifest.dialect.value,
        "kind": manifest.kind.value,
        "root": root,
        "entrypoints": dict(runtime.entrypoints),
        "capabilities": [str(capability) for capability in granted],
        "site": list(site),
        "environment": dict(runtime.env) if manifest.kind in ISOLATED_KINDS else {},
    }
    return {WORKER_VARIABLE: json.dumps(told)}


def worker_command(kind: PluginKind, machine: HostFilesystem, fallback: str, own: str | None) -> tuple[str, ...]:
    """The command of a worker: in the machine's own Python where that is new enough, since it starts warm there.

    Args:
        kind: Of the plugin.
        machine: The host's files.
        fallback: The interpreter that the host itself runs in.
        own: The interpreter of the plugin's environment, where it has one.
    """
    return (
        own or _interpreter(machine, fallback),
        *(ISOLATED_PYTHON_FLAGS if kind in ISOLATED_KINDS else ()),
        WORKER_SCRIPT,
    )


def _interpreter(machine: HostFilesystem, fallback: str) -> str:
    found = find_program("python3", PROGRAM_PATH, machine)
    version = _VERSIONED_NAME.search(found.real) if found else None
    if found and version and (int(version[1]), int(version[2])) >= MIN_PYTHON:
        return found.path
    return fallback
