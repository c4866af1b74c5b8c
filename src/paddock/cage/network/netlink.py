"""Asking the kernel to change this process's network, in its own binary language and without any program's help.

A request is a header, a fixed part and attributes; the kernel answers each with an acknowledgement that carries an
error number. Only what a cage's network needs is here: a route that makes addresses local. Redirects are in
`redirect.py`.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Sequence

REQUEST, ACKNOWLEDGE, CREATE, APPEND = 0x1, 0x4, 0x400, 0x800
_NESTED = 0x8000
_ERROR = 2  # the type of an acknowledgement
_PATIENCE = 2.0  # seconds; the kernel answers at once or is in trouble

_ROUTE_PROTOCOL = 0
_NEW_ROUTE = 24
_TABLE_LOCAL, _BY_BOOT, _SCOPE_HOST, _TYPE_LOCAL = 255, 3, 254, 2
_DESTINATION, _OUT_INTERFACE = 1, 4
_LO = 1  # loopback is the first interface of every network namespace


def attribute(kind: int, value: bytes) -> bytes:
    """A typed value, padded to four bytes as the kernel wants it."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    """An attribute made of attributes."""
    return attribute(kind | _NESTED, b"".join(attributes))


def message(kind: int, flags: int, number: int, body: bytes) -> bytes:
    """One request; `number` is what its acknowledgement will carry."""
    return struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, number, 0) + body


def converse(protocol: int, messages: Sequence[bytes], *, answers: int) -> None:
    """Send requests together and wait until that many were acknowledged.

    Raises:
        OSError: the kernel refused one, with its error number; or it did not answer in time.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as kernel:
        kernel.bind((0, 0))
        kernel.settimeout(_PATIENCE)
        kernel.send(b"".join(messages))
        while answers > 0:
            for error in _acknowledgements(kernel.recv(65536)):
                if error:
                    raise OSError(error, os.strerror(error))
                answers -= 1


def _acknowledgements(data: bytes) -> list[int]:
    errors: list[int] = []
    at = 0
    while at + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind == _ERROR:
            errors.append(-struct.unpack_from("=i", data, at + 16)[0])
        at += max(16, (length + 3) & ~3)
    return errors


def make_local(prefix: str) -> None:
    """Let every address of a prefix be this network's own, so that connecting there ends at a listener here.

    Raises:
        OSError: the kernel refused.
    """
    network = ipaddress.ip_network(prefix)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    fixed = struct.pack(
        "=BBBBBBBBI", family, network.prefixlen, 0, 0, _TABLE_LOCAL, _BY_BOOT, _SCOPE_HOST, _TYPE_LOCAL, 0
    )
    attributes = attribute(_OUT_INTERFACE, struct.pack("=i", _LO))
    if network.prefixlen:
        attributes += attribute(_DESTINATION, network.network_address.packed)
    request = message(_NEW_ROUTE, ACKNOWLEDGE | CREATE, 1, fixed + attributes)
    converse(_ROUTE_PROTOCOL, [request], answers=1)
