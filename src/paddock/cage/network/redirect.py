"""Sending connections to a listener of our own, whatever port they were meant for: nf_tables, spoken directly.

One chain watches what leaves; each rule says: TCP to (or to anything but) this prefix goes to this local port. What was
really meant is asked back from the accepted connection (`meant_by`). The rules stand in the cage's own network, where
the plugin has no capability to touch them.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Sequence

from paddock.cage.network.netlink import ACKNOWLEDGE, APPEND, CREATE, attribute, converse, message, nested

_NETFILTER = 12
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = (_SUBSYSTEM << 8 | kind for kind in (0, 3, 6))
_ANY, _IPV4, _IPV6 = 0, 2, 10
_TABLE, _CHAIN = b"cage\0", b"leaving\0"
_LEAVING, _DESTINATION_NAT = 3, -100  # the hook for what this network itself sends, and when nat has its turn there
_ACCEPT = 1
_EQUAL, _UNEQUAL = 0, 1
_REGISTER = 1
_NETWORK_HEADER = 1
_DESTINATION_AT = {_IPV4: 16, _IPV6: 24}  # where the address stands in the header
_TRANSPORT_PROTOCOL = 16  # what `meta` calls it
_PORT_GIVEN = 2

_ORIGINAL_DESTINATION = 80


def redirect(prefixes: Sequence[str], port: int) -> None:
    """Lead TCP for these prefixes of the current network to a local port. `!` before a prefix is everything but.

    Raises:
        OSError: the kernel refused; ENOENT or EOPNOTSUPP where it has no nf_tables or no nat.
    """
    for family in (_IPV4, _IPV6):
        own = [prefix for prefix in prefixes if (":" in prefix) == (family == _IPV6)]
        if own:
            _install(family, [_rule(family, prefix, port) for prefix in own])


def meant_by(connection: socket.socket) -> tuple[str, int]:
    """The address and port that a redirected connection was made to.

    Raises:
        OSError: it is not known (any more).
    """
    if connection.family == socket.AF_INET6:
        raw = connection.getsockopt(socket.IPPROTO_IPV6, _ORIGINAL_DESTINATION, 28)
        return socket.inet_ntop(socket.AF_INET6, raw[8:24]), int.from_bytes(raw[2:4], "big")
    raw = connection.getsockopt(socket.IPPROTO_IP, _ORIGINAL_DESTINATION, 16)
    return socket.inet_ntoa(raw[4:8]), int.from_bytes(raw[2:4], "big")


def _install(family: int, rules: Sequence[bytes]) -> None:
    """Table, chain and rules in one transaction: all of it stands, or nothing."""
    hook = nested(4, attribute(1, _number(_LEAVING)), attribute(2, struct.pack(">i", _DESTINATION_NAT)))
    chain = attribute(1, _TABLE) + attribute(3, _CHAIN) + attribute(7, b"nat\0") + attribute(5, _number(_ACCEPT)) + hook
    requests = [
        (_NEW_TABLE, ACKNOWLEDGE, attribute(1, _TABLE) + attribute(2, _number(0))),
        (_NEW_CHAIN, ACKNOWLEDGE | CREATE, chain),
        *((_NEW_RULE, ACKNOWLEDGE | CREATE | APPEND, rule) for rule in rules),
    ]
    messages = [message(_BATCH_BEGIN, 0, 0, _head(_ANY, _SUBSYSTEM))]
    for number, (kind, flags, body) in enumerate(requests, start=1):
        messages.append(message(kind, flags, number, _head(family) + body))
    messages.append(message(_BATCH_END, 0, len(messages), _head(_ANY, _SUBSYSTEM)))
    converse(_NETFILTER, messages, answers=len(requests))


def _rule(family: int, prefix: str, port: int) -> bytes:
    compared = _UNEQUAL if prefix.startswith("!") else _EQUAL
    network = ipaddress.ip_network(prefix.removeprefix("!"))
    # Comparing whole bytes needs no mask, and no plan asks for anything finer.
    length, rest = divmod(network.prefixlen, 8)
    if rest or not length:
        raise ValueError(f"{prefix} does not end at a byte")
    steps = nested(
        4,
        _step("meta", attribute(1, _number(_REGISTER)), attribute(2, _number(_TRANSPORT_PROTOCOL))),
        _compare(_EQUAL, bytes([socket.IPPROTO_TCP])),
        _step(
            "payload",
            attribute(1, _number(_REGISTER)),
            attribute(2, _number(_NETWORK_HEADER)),
            attribute(3, _number(_DESTINATION_AT[family])),
            attribute(4, _number(length)),
        ),
        _compare(compared, network.network_address.packed[:length]),
        _step("immediate", attribute(1, _number(_REGISTER)), nested(2, attribute(1, struct.pack(">H", port)))),
        _step("redir", attribute(1, _number(_REGISTER)), attribute(3, _number(_PORT_GIVEN))),
    )
    return attribute(1, _TABLE) + attribute(2, _CHAIN) + steps


def _step(name: str, *attributes: bytes) -> bytes:
    return nested(1, attribute(1, name.encode() + b"\0"), nested(2, *attributes))


def _compare(how: int, value: bytes) -> bytes:
    return _step("cmp", attribute(1, _number(_REGISTER)), attribute(2, _number(how)), nested(3, attribute(1, value)))


def _head(family: int, resource: int = 0) -> bytes:
    return struct.pack(">BBH", family, 0, resource)


def _number(value: int) -> bytes:
    return struct.pack(">I", value)
