"""What is really run for a plugin on this machine: its own command, a program of its packages, or a worker."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.manifest.capability import Capability
from paddock.manifest.command import environment_program
from paddock.manifest.model import CommandRuntime, Manifest, PythonRuntime
from paddock.runtime.protocols.python.worker import worker_command, worker_environment

if TYPE_CHECKING:
    from paddock.plugins.environments.store import Environment


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """What to run, and what that needs around it."""

    argv: tuple[str, ...] | None = None  # None: what the manifest says
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    trees: tuple[str, ...] = ()  # directories to be shown besides the plugin's own


def build_launch_command(
    manifest: Manifest,
    root: str,
    granted: Sequence[Capability],
    environment: Environment | None,
    machine: HostFilesystem,
) -> LaunchCommand:
    """The command of one plugin.

    Args:
        manifest: The plugin's.
        root: Where its files are.
        granted: What a person granted, as far as its kind may have it.
        environment: The packages that it needs, where it needs any.
        machine: The host's files.

    Raises:
        PluginError: its packages do not have the program that it names.
    """
    trees = (str(environment.root),) if environment is not None else ()
    match manifest.runtime:
        case PythonRuntime() as runtime:
            python = str(environment.python) if environment else None
            words = worker_command(manifest.kind, machine, base_interpreter(), python)
            site = tuple(str(place) for place in environment.site_packages) if environment else ()
            return LaunchCommand(words, worker_environment(manifest, runtime, root, granted, site), trees)
        case CommandRuntime(command=command) if environment is not None and environment_program(command) is not None:
            from paddock.plugins.environments.requirements import resolve_command

            return LaunchCommand(resolve_command(manifest, environment), trees=trees)
        case _:
            return LaunchCommand(trees=trees)


def base_interpreter() -> str:
    """The interpreter that we run in, without a virtual environment around it."""
    return getattr(sys, "_base_executable", "") or sys.executable
