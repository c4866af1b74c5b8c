"""The second seccomp filter of a learning cage: asks an observer about each call that names a file or an address. Pure.

It allows everything itself. The filter of every cage (`confine/seccomp.py`) stays in force and goes first: a call that
it refuses is refused, and never reaches the observer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from paddock.cage.confine.observer_program import CALLS
from paddock.cage.confine.seccomp import MACHINES, Instruction

SECCOMP_NUMBERS = {"x86_64": 317, "aarch64": 277}  # of the system call `seccomp` itself

_LOAD, _RETURN = 0x20, 0x06
_IF_EQUAL, _IF_ANY_BIT = 0x15, 0x45
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_EMPTY_PATH = 0x1000
# With AT_EMPTY_PATH these look at an open descriptor, which is most of their use and names no file.
_FLAGS_ARGUMENT = {"newfstatat": 3, "statx": 2}


def notify_program(machine: str) -> bytes:
    """The filter for one architecture, as the kernel takes it.

    Raises:
        KeyError: The architecture is unknown.
    """
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in notify_filter(machine))


def notify_filter(machine: str) -> list[Instruction]:
    """The filter as instructions."""
    column, audit = MACHINES[machine]
    numbers = {name: call.numbers[column] for name, call in CALLS.items()}
    program: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE),
        (_IF_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for name, argument in _FLAGS_ARGUMENT.items():
        program += _unless_empty_path(numbers, name, argument)
    for number in sorted(number for number in numbers.values() if number is not None):
        program += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _unless_empty_path(numbers: Mapping[str, int | None], name: str, argument: int) -> list[Instruction]:
    number = numbers[name]
    if number is None:
        return []
    return [
        (_IF_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_IF_ANY_BIT, 0, 1, _EMPTY_PATH),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]
