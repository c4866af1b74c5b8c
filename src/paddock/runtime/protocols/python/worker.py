"""The environment and command line of a Python worker. Pure."""

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
MIN_PYTHON = (3, 11)  # the oldest version that the SDK supports
_VERSIONED_NAME = re.compile(r"python(\d+)\.(\d+)")


def worker_environment(
    manifest: Manifest, runtime: PythonRuntime, root: str, granted: Iterable[Capability], site: Sequence[str] = ()
) -> dict[str, str]:
    """Build the environment variable that tells a worker which code to run.

    Args:
        manifest: The plugin's manifest.
        runtime: Its entry points.
        root: The directory of its files.
        granted: The granted capabilities.
        site: Further directories to import from: the plugin's own environment.
    """
    worker_config = {
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
    return {WORKER_VARIABLE: json.dumps(worker_config)}


def worker_command(
    kind: PluginKind, filesystem: HostFilesystem, fallback: str, environment_python: str | None
) -> tuple[str, ...]:
    """Build the worker's command line. It prefers the machine's own Python if recent enough, which has a warm zygote.

    Args:
        kind: The plugin's kind.
        filesystem: The host's files.
        fallback: The interpreter that the host itself runs in.
        environment_python: The interpreter of the plugin's environment, if it has one.
    """
    return (
        environment_python or _interpreter(filesystem, fallback),
        *(ISOLATED_PYTHON_FLAGS if kind in ISOLATED_KINDS else ()),
        WORKER_SCRIPT,
    )


def _interpreter(filesystem: HostFilesystem, fallback: str) -> str:
    program = find_program("python3", PROGRAM_PATH, filesystem)
    version = _VERSIONED_NAME.search(program.real) if program else None
    if program and version and (int(version[1]), int(version[2])) >= MIN_PYTHON:
        return program.path
    return fallback
