"""Directories that the program of a plugin's command needs, where that program is not one for everyone. Pure.

A virtual environment is one directory, and so is the installation of the interpreter that it was made from.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from paddock.cage.learn.proposal import Learned
from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.named_places import NamedPlaces
from paddock.cage.plan.programs import (
    copied_interpreter,
    find_program,
    is_python,
    program_on_path,
    shebang_interpreters,
)
from paddock.manifest.capability import InvalidCapability, parse_capability
from paddock.manifest.model import CommandRuntime, Manifest


def propose_program_places(manifest: Manifest, program_path: str, filesystem: HostFilesystem, learned: Learned) -> None:
    """Propose to show the directories from which the plugin's own command is run."""
    runtime = manifest.runtime
    name = runtime.command[0] if isinstance(runtime, CommandRuntime) else ""
    programs = [name, *(shebang_interpreters(name, filesystem) if name.startswith("/") else ())]
    for program in programs:
        _propose_places(program, program_path, filesystem, learned)


def _propose_places(name: str, program_path: str, filesystem: HostFilesystem, learned: Learned) -> None:
    program = find_program(name, program_path, filesystem) if name.startswith("/") else None
    if program is None:
        return
    public = program_on_path(program, program_path, filesystem)
    private = program.steps[: len(program.steps) - len(public.steps if public else ())]
    if not private:
        return
    if (origin := copied_interpreter(program, filesystem)) is not None:
        _propose_places(origin.path, program_path, filesystem, learned)
    for step in dict.fromkeys((name, *private)):
        prefix = posixpath.dirname(posixpath.dirname(step))
        environment = filesystem.kind(f"{prefix}/pyvenv.cfg") == "file"
        installation = step == program.real and is_python(program)
        place = prefix if (environment or installation) and prefix != "/" else posixpath.dirname(step)
        try:
            capability = parse_capability(f"read:fs:{place}")
        except InvalidCapability:
            continue
        learned.propose(capability, f"its command runs {step}", named=True)


def propose_module_places(
    modules: Iterable[str], named: NamedPlaces, filesystem: HostFilesystem, learned: Learned
) -> None:
    """Propose to show the folder of a Python program that its settings name, if modules that it misses are there.

    Python lists that folder, so that it does not try to open a file which the cage does not show.
    """
    for module in modules:
        name = module.partition(".")[0]
        for path, where in named.paths.items():
            folder = posixpath.dirname(path)
            if not path.endswith(".py") or not _has_module(folder, name, filesystem):
                continue
            try:
                capability = parse_capability(f"read:fs:{folder}")
            except InvalidCapability:
                continue
            learned.propose(capability, f"imports {name}, beside {path}, named in {where}", named=True)


def _has_module(folder: str, name: str, filesystem: HostFilesystem) -> bool:
    return filesystem.kind(f"{folder}/{name}.py") == "file" or filesystem.kind(f"{folder}/{name}") == "directory"
