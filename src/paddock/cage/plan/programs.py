"""Finding a program the way a plugin's command names it, with every link on the way to the file. Pure over a `Machine`.

Inside the cage the same name must lead to the same file, so the links are rebuilt there one by one: `/bin` to
`usr/bin`, `awk` to `/etc/alternatives/awk` to `mawk`, a virtual environment's `python` to the interpreter it was made
from.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from paddock.cage.plan.machine import Machine
from paddock.cage.spec import Link

PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin"  # the programs that a machine has for everybody
_TOO_MANY_LINKS = 40  # where the kernel gives up, too
_PYTHON = re.compile(r"python3?(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Traced:
    """Where a path really leads."""

    real: str
    links: tuple[Link, ...]  # every link on the way, in the order they were met


@dataclass(frozen=True, slots=True)
class Program:
    """A program as it was named, and the file that it is."""

    path: str
    traced: Traced
    # As it is named, then every link that is met from there, then the file. The directory that it is named in is taken
    # for what it really is, so that `/bin/sh` begins at `/usr/bin/sh`.
    steps: tuple[str, ...] = ()

    @property
    def real(self) -> str:
        return self.traced.real


def trace(path: str, machine: Machine) -> Traced | None:
    """Follow every link of an absolute path; None where it leads nowhere or round in a circle."""
    links: list[Link] = []
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
        links.append(Link(step, to))
        if len(links) > _TOO_MANY_LINKS:
            return None
        pending += [part for part in to.split("/") if part not in ("", ".")][::-1]
        if to.startswith("/"):
            here = "/"
    return Traced(here, tuple(dict.fromkeys(links)))


def find_program(name: str, program_path: str, machine: Machine) -> Program | None:
    """A program by its bare name in the directories of `program_path`, or by its absolute path."""
    candidates = [name] if "/" in name else [f"{place}/{name}" for place in program_path.split(":")]
    if not candidates[0].startswith("/"):
        return None
    for candidate in candidates:
        program = _traced_program(candidate, machine)
        if program is not None and machine.kind(program.real) == "file" and machine.runnable(program.real):
            return program
    return None


def _traced_program(path: str, machine: Machine) -> Program | None:
    directory = trace(posixpath.dirname(path), machine)
    way = directory and trace(posixpath.join(directory.real, posixpath.basename(path)), machine)
    if not directory or not way:
        return None
    links = tuple(dict.fromkeys((*directory.links, *way.links)))
    return Program(path, Traced(way.real, links), (*(link.path for link in way.links), way.real))


def public_part(program: Program, program_path: str, machine: Machine) -> Program | None:
    """The program as it is named in a directory of `program_path`; None where the way to it passes through none."""
    found = (trace(place, machine) for place in program_path.split(":"))
    directories = {place.real for place in found if place}
    first = next((at for at, step in enumerate(program.steps) if posixpath.dirname(step) in directories), None)
    if first is None:
        return None
    steps = program.steps[first:]
    links = tuple(link for link in program.traced.links if link.path in steps)
    return Program(steps[0], Traced(program.real, links), steps)


def interpreter_line(path: str, machine: Machine) -> list[str]:
    """The words after `#!` in a script's first line; empty for anything else."""
    first = machine.opening(path).partition(b"\n")[0]
    if not first.startswith(b"#!"):
        return []
    return first[2:].decode("utf-8", "replace").split()


def interpreters(path: str, machine: Machine) -> list[str]:
    """Programs that the kernel runs before a script gets its turn: `/usr/bin/env bash` is two of them."""
    words = interpreter_line(path, machine)
    if not words:
        return []
    if posixpath.basename(words[0]) != "env":
        return words[:1]
    named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return [words[0], *named[:1]]


def is_python(program: Program) -> bool:
    """Whether the program is a CPython interpreter, by the name of the file that it is."""
    return _PYTHON.fullmatch(posixpath.basename(program.real)) is not None
