"""Finds a program by the name in a plugin's command, with every link that leads to its file. Pure over a
`HostFilesystem`.

Inside the cage the same name must lead to the same file, so the links are recreated there one by one: `/bin` to
`usr/bin`, `awk` to `/etc/alternatives/awk` to `mawk`, a virtual environment's `python` to the interpreter it was made
from.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.spec import SymbolicLink

PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin"  # the directories of programs for every user of the host
# Of files with a program's text, which the program itself does not change.
PROGRAM_SUFFIXES = (".py", ".pyz", ".js", ".cjs", ".mjs", ".ts", ".rb", ".sh", ".jar", ".php", ".pl")
_MAX_LINKS = 40  # the kernel's limit, too
_PYTHON = re.compile(r"python3?(\.\d+)?")


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """The real path behind a path."""

    real: str
    links: tuple[SymbolicLink, ...]  # every link that was followed, in order


@dataclass(frozen=True, slots=True)
class ResolvedProgram:
    """A program as it was named, and its file."""

    path: str
    resolved: ResolvedPath
    # The path as named, then every link that is followed from there, then the file. The directory part is resolved
    # first, so that `/bin/sh` begins at `/usr/bin/sh`.
    steps: tuple[str, ...] = ()

    @property
    def real(self) -> str:
        return self.resolved.real


def resolve_links(path: str, filesystem: HostFilesystem, *, must_exist: bool = True) -> ResolvedPath | None:
    """Resolve every link of an absolute path; None where it leads nowhere or the links form a loop.

    With `must_exist` false it may lead to what does not exist yet.
    """
    links: list[SymbolicLink] = []
    pending = [part for part in path.split("/") if part not in ("", ".")][::-1]
    current = "/"
    while pending:
        part = pending.pop()
        if part == "..":
            current = posixpath.dirname(current)
            continue
        step = posixpath.join(current, part)
        kind = filesystem.kind(step)
        if kind is None and must_exist:
            return None
        if kind != "link":
            current = step
            continue
        target = filesystem.link(step)
        if not target:
            return None  # removed since it was seen
        links.append(SymbolicLink(step, target))
        if len(links) > _MAX_LINKS:
            return None
        pending += [part for part in target.split("/") if part not in ("", ".")][::-1]
        if target.startswith("/"):
            current = "/"
    return ResolvedPath(current, tuple(dict.fromkeys(links)))


def find_program(name: str, program_path: str, filesystem: HostFilesystem) -> ResolvedProgram | None:
    """Find a program by its bare name in the directories of `program_path`, or by its absolute path."""
    candidates = [name] if "/" in name else [f"{directory}/{name}" for directory in program_path.split(":")]
    if not candidates[0].startswith("/"):
        return None
    for candidate in candidates:
        program = _resolve_program(candidate, filesystem)
        if program is not None and filesystem.kind(program.real) == "file" and filesystem.runnable(program.real):
            return program
    return None


def _resolve_program(path: str, filesystem: HostFilesystem) -> ResolvedProgram | None:
    directory = resolve_links(posixpath.dirname(path), filesystem)
    resolved = directory and resolve_links(posixpath.join(directory.real, posixpath.basename(path)), filesystem)
    if not directory or not resolved:
        return None
    links = tuple(dict.fromkeys((*directory.links, *resolved.links)))
    return ResolvedProgram(
        path, ResolvedPath(resolved.real, links), (*(link.path for link in resolved.links), resolved.real)
    )


def program_on_path(program: ResolvedProgram, program_path: str, filesystem: HostFilesystem) -> ResolvedProgram | None:
    """The program from its first step in a directory of `program_path`; None where no step is in one."""
    resolved_directories = (resolve_links(directory, filesystem) for directory in program_path.split(":"))
    directories = {directory.real for directory in resolved_directories if directory}
    first = next((index for index, step in enumerate(program.steps) if posixpath.dirname(step) in directories), None)
    if first is None:
        return None
    steps = program.steps[first:]
    links = tuple(link for link in program.resolved.links if link.path in steps)
    return ResolvedProgram(steps[0], ResolvedPath(program.real, links), steps)


def shebang_words(path: str, filesystem: HostFilesystem) -> list[str]:
    """The words after `#!` in a script's first line; empty for anything else."""
    first_line = filesystem.read_head(path).partition(b"\n")[0]
    if not first_line.startswith(b"#!"):
        return []
    return first_line[2:].decode("utf-8", "replace").split()


def shebang_interpreters(path: str, filesystem: HostFilesystem) -> list[str]:
    """The programs that the kernel runs for a script: `/usr/bin/env bash` is two of them."""
    words = shebang_words(path, filesystem)
    if not words:
        return []
    if posixpath.basename(words[0]) != "env":
        return words[:1]
    programs = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return [words[0], *programs[:1]]


def is_python(program: ResolvedProgram) -> bool:
    """Whether the program is a CPython interpreter, by the name of its file."""
    return _PYTHON.fullmatch(posixpath.basename(program.real)) is not None


def copied_interpreter(program: ResolvedProgram, filesystem: HostFilesystem) -> ResolvedProgram | None:
    """The interpreter of which a virtual environment holds a copy; None for every other program.

    The copy finds the standard library by the `home` in the `pyvenv.cfg` beside it.
    """
    if not is_python(program):
        return None
    settings = filesystem.read_head(_environment_file(program)).decode("utf-8", "replace")
    pairs = (line.partition("=") for line in settings.splitlines())
    home = next((value.strip() for name, _, value in pairs if name.strip().lower() == "home"), "")
    names = dict.fromkeys((posixpath.basename(program.real), "python3", "python"))
    candidates = (find_program(f"{home}/{name}", "", filesystem) for name in names if home.startswith("/"))
    return next((one for one in candidates if one is not None and _is_installation(one, filesystem)), None)


def _is_installation(program: ResolvedProgram, filesystem: HostFilesystem) -> bool:
    # Not another environment: two of them could name each other.
    return is_python(program) and filesystem.kind(_environment_file(program)) is None


def _environment_file(program: ResolvedProgram) -> str:
    return f"{posixpath.dirname(posixpath.dirname(program.real))}/pyvenv.cfg"
