"""What a worker is told when it starts, and the program that it is. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from paddock.cage.plan.machine import Machine
from paddock.cage.plan.programs import PROGRAM_PATH, find_program
from paddock.cage.plan.worker import ISOLATED, WALLED
from paddock.cage.spec import WORKER
from paddock.manifest.capability import Capability
from paddock.manifest.model import Kind, Manifest, PythonRuntime

VARIABLE = "PADDOCK_WORKER"  # the SDK reads it
OLDEST_PYTHON = (3, 11)  # that the SDK runs on
_VERSIONED = re.compile(r"python(\d+)\.(\d+)")


def orders(
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
        "environment": dict(runtime.env) if manifest.kind in WALLED else {},
    }
    return {VARIABLE: json.dumps(told)}


def worker_command(kind: Kind, machine: Machine, fallback: str, own: str | None) -> tuple[str, ...]:
    """The command of a worker: in the machine's own Python where that is new enough, since it starts warm there.

    Args:
        kind: Of the plugin.
        machine: The host's files.
        fallback: The interpreter that the host itself runs in.
        own: The interpreter of the plugin's environment, where it has one.
    """
    return (own or _interpreter(machine, fallback), *(ISOLATED if kind in WALLED else ()), WORKER)


def _interpreter(machine: Machine, fallback: str) -> str:
    found = find_program("python3", PROGRAM_PATH, machine)
    version = _VERSIONED.search(found.real) if found else None
    if found and version and (int(version[1]), int(version[2])) >= OLDEST_PYTHON:
        return found.path
    return fallback
