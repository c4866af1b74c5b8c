"""Finding a program the way a plugin's command names it, with every link on the way to the file. Pure over a `Machine`.

Inside the cage the same name must lead to the same file, so the links are rebuilt there one by one: `/bin` to
`usr/bin`, `awk` to `/etc/alternatives/awk` to `mawk`, a virtual environment's `python` to the interpreter it was made
from.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from paddock.cage.machine import Machine
from paddock.cage.spec import Link

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
    candidates = [name] if name.startswith("/") else [f"{place}/{name}" for place in program_path.split(":")]
    for candidate in candidates:
        found = trace(candidate, machine)
        if found is not None and machine.kind(found.real) == "file" and machine.runnable(found.real):
            return Program(candidate, found)
    return None


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
