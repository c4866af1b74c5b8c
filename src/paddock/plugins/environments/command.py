"""The command line of a plugin that runs in an environment: from the program's name to what is there."""

from __future__ import annotations

from paddock.core.errors import PluginError
from paddock.core.printable import printable
from paddock.manifest.environment_command import environment_program
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.plugins.environments.lock import Ecosystem
from paddock.plugins.environments.shelf import Environment


def command_for(manifest: Manifest, environment: Environment) -> tuple[str, ...]:
    """What to run for a manifest whose command is `environment:PROGRAM`.

    The cage must show `environment.root`: the script lies there, and everything that it loads.

    Raises:
        PluginError: the environment has no such program, or the manifest names none.
    """
    runtime = manifest.runtime
    command = runtime.command if isinstance(runtime, CommandRuntime) else ()
    program = environment_program(command)
    script = environment.programs.get(program or "")
    if program is None or script is None:
        raise PluginError(
            f"the packages of {manifest.name} bring no program {printable(program or '')}",
            code="environment.no_such_program",
            hint=f"they bring: {printable(', '.join(sorted(environment.programs)), 300)}",
        )
    runner = str(environment.python) if environment.ecosystem is Ecosystem.PYTHON else "node"
    return (runner, str(script), *command[1:])
