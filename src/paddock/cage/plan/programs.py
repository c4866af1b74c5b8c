"""Finding a program the way a plugin's command names it, with every link on the way to the file. Pure over a `Machine`.

Inside the cage the same name must lead to the same file, so the links are rebuilt there one by one: `/bin` to
`usr/bin`, `awk` to `/etc/alternatives/awk` to `mawk`, a virtual environment's `python` to the interpreter it was made
from.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.spec import SymbolicLink

PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin"  # the programs that a machine has for everybody
_MAX_LINKS = 40  # where the kernel gives up, too
_PYTHON = re.compile(r"python3?(\.\d+)?")


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """Where a path really leads."""

    real: str
    links: tuple[SymbolicLink, ...]  # every link on the way, in the order they were met


@dataclass(frozen=True, slots=True)
class ResolvedProgram:
    """A program as it was named, and the file that it is."""

    path: str
    resolved: ResolvedPath
    # As it is named, then every link that is met from there, then the file. The directory that it is named in is taken
    # for what it really is, so that `/bin/sh` begins at `/usr/bin/sh`.
    steps: tuple[str, ...] = ()

    @property
    def real(self) -> str:
        return self.resolved.real


def resolve_links(path: str, machine: HostFilesystem) -> ResolvedPath | None:
    """Follow every link of an absolute path; None where it leads nowhere or round in a circle."""
    links: list[SymbolicLink] = []
    pending = [part for part in path.split("/") if part not in ("", ".")][::-1]
    here = "/"
    while pending:
        part = pending.pop()
        if part == "..":
            here = posixpath.dirname(here)
            continue
        step = posixpath.join(here, part)
        kind = machine.kind(step)
        if kind is None:
            return None
        if kind != "link":
            here = step
            continue
        to = machine.link(step)
        if not to:
            return None  # gone since it was seen
        links.append(SymbolicLink(step, to))
        if len(links) > _MAX_LINKS:
            return None
        pending += [part for part in to.split("/") if part not in ("", ".")][::-1]
        if to.startswith("/"):
            here = "/"
    return ResolvedPath(here, tuple(dict.fromkeys(links)))


def find_program(name: str, program_path: str, machine: HostFilesystem) -> ResolvedProgram | None:
    """A program by its bare name in the directories of `program_path`, or by its absolute path."""
    candidates = [name] if "/" in name else [f"{place}/{name}" for place in program_path.split(":")]
    if not candidates[0].startswith("/"):
        return None
    for candidate in candidates:
        program = _resolve_program(candidate, machine)
        if program is not None and machine.kind(program.real) == "file" and machine.runnable(program.real):
            return program
    return None


def _resolve_program(path: str, machine: HostFilesystem) -> ResolvedProgram | None:
    directory = resolve_links(posixpath.dirname(path), machine)
    way = directory and resolve_links(posixpath.join(directory.real, posixpath.basename(path)), machine)
    if not directory or not way:
        return None
    links = tuple(dict.fromkeys((*directory.links, *way.links)))
    return ResolvedProgram(path, ResolvedPath(way.real, links), (*(link.path for link in way.links), way.real))


def program_on_path(program: ResolvedProgram, program_path: str, machine: HostFilesystem) -> ResolvedProgram | None:
    """The program as it is named in a directory of `program_path`; None where the way to it passes through none."""
    found = (resolve_links(place, machine) for place in program_path.split(":"))
    directories = {place.real for place in found if place}
    first = next((at for at, step in enumerate(program.steps) if posixpath.dirname(step) in directories), None)
    if first is None:
        return None
    steps = program.steps[first:]
    links = tuple(link for link in program.resolved.links if link.path in steps)
    return ResolvedProgram(steps[0], ResolvedPath(program.real, links), steps)


def shebang_words(path: str, machine: HostFilesystem) -> list[str]:
    """The words after `#!` in a script's first line; empty for anything else."""
    first = machine.read_head(path).partition(b"\n")[0]
    if not first.startswith(b"#!"):
        return []
    return first[2:].decode("utf-8", "replace").split()


def shebang_interpreters(path: str, machine: HostFilesystem) -> list[str]:
    """Programs that the kernel runs before a script gets its turn: `/usr/bin/env bash` is two of them."""
    words = shebang_words(path, machine)
    if not words:
        return []
    if posixpath.basename(words[0]) != "env":
        return words[:1]
    named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return [words[0], *named[:1]]


def is_python(program: ResolvedProgram) -> bool:
    """Whether the program is a CPython interpreter, by the name of the file that it is."""
    return _PYTHON.fullmatch(posixpath.basename(program.real)) is not None
