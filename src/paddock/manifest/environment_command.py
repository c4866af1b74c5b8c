"""`environment:PROGRAM` as the first word of a command: a program of the packages that the plugin's lock pins.

A manifest cannot say where such a program will stand: that is decided on each machine, when the environment is built.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PREFIX = "environment:"
LOCK_FILES = ("requirements.lock", "package-lock.json")
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def environment_program(command: Sequence[str]) -> str | None:
    """The program of the environment that a command names; None for any other command."""
    return command[0].removeprefix(PREFIX) if command and command[0].startswith(PREFIX) else None


def program_fault(program: str) -> str | None:
    """What is wrong with such a name; None when nothing is."""
    if _PROGRAM.fullmatch(program):
        return None
    return "is not the name of a program: letters, digits, '.', '_' and '-' follow 'environment:'"
