"""Builds the command that runs a plugin on this machine: its own, a program of its environment, or a Python worker."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.manifest.capability import Capability
from paddock.manifest.command import environment_program
from paddock.manifest.model import CommandRuntime, Manifest, PythonRuntime
from paddock.runtime.protocols.python.worker import worker_command, worker_environment

if TYPE_CHECKING:
    from paddock.plugins.environments.store import Environment


class LaunchCommand(Struct, frozen=True):
    """The command to run, and the variables and directories it needs."""

    argv: tuple[str, ...] | None = None  # None: the command of the manifest
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    trees: tuple[str, ...] = ()  # directories to mount besides the plugin's own


def build_launch_command(
    manifest: Manifest,
    root: str,
    granted: Sequence[Capability],
    environment: Environment | None,
    filesystem: HostFilesystem,
) -> LaunchCommand:
    """Build the launch command of a plugin.

    Args:
        manifest: The plugin's manifest.
        root: The directory of its files.
        granted: The granted capabilities, limited to those its kind may have.
        environment: Its installed packages, if it needs any.
        filesystem: The host's file system.

    Raises:
        PluginError: its packages lack the program that the manifest names.
    """
    trees = (str(environment.root),) if environment is not None else ()
    match manifest.runtime:
        case PythonRuntime() as runtime:
            python = str(environment.python) if environment else None
            argv = worker_command(manifest.kind, filesystem, base_interpreter(), python)
            site_packages = tuple(str(path) for path in environment.site_packages) if environment else ()
            return LaunchCommand(argv, worker_environment(manifest, runtime, root, granted, site_packages), trees)
        case CommandRuntime(command=command) if environment is not None and environment_program(command) is not None:
            from paddock.plugins.environments.requirements import resolve_command

            return LaunchCommand(resolve_command(manifest, environment), trees=trees)
        case _:
            return LaunchCommand(trees=trees)


def base_interpreter() -> str:
    """Return the interpreter that we run in, outside of any virtual environment."""
    return getattr(sys, "_base_executable", "") or sys.executable
