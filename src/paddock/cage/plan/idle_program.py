"""A program that does nothing and succeeds: it stands in for a program that a plugin looked for. Pure."""

from __future__ import annotations

import struct

_ADDRESS = 0x400000
_HEADERS_BYTES = 64 + 56  # of the file, and of its only segment
# The number that ELF has for it, and `exit(0)`, for each architecture.
_MACHINES = {
    "x86_64": (62, bytes.fromhex("31ff b83c000000 0f05")),
    "aarch64": (183, struct.pack("<3I", 0xD2800000, 0xD2800BA8, 0xD4000001)),
}


def idle_program(machine: str) -> bytes:
    """The program as an ELF file for one architecture.

    Raises:
        KeyError: The architecture is unknown.
    """
    number, code = _MACHINES[machine]
    size = _HEADERS_BYTES + len(code)
    identification = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    file = struct.pack("<HHIQQQIHHHHHH", 2, number, 1, _ADDRESS + _HEADERS_BYTES, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _ADDRESS, _ADDRESS, size, size, 0x1000)
    return identification + file + segment + code
