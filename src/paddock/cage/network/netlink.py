"""A minimal netlink client: local routes and nf_tables redirects in this process's network namespace.

A request is a header, a fixed part and attributes; the kernel answers each with an acknowledgement that carries an
errno. Only what a cage's network needs is here.
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
_REPLY_TIMEOUT_S = 2.0  # seconds; the kernel answers at once or is in trouble

_ROUTE_PROTOCOL = 0
_NEW_ROUTE = 24
_TABLE_LOCAL, _BY_BOOT, _SCOPE_HOST, _TYPE_LOCAL = 255, 3, 254, 2
_DESTINATION, _OUT_INTERFACE = 1, 4
_LOOPBACK_INDEX = 1  # loopback is the first interface of every network namespace


def attribute(kind: int, value: bytes) -> bytes:
    """Encode a typed value, padded to four bytes as the kernel requires."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    """Encode an attribute made of attributes."""
    return attribute(kind | _NESTED, b"".join(attributes))


def build_message(kind: int, flags: int, number: int, payload: bytes) -> bytes:
    """Encode one request; its acknowledgement carries `number`."""
    return struct.pack("=IHHII", 16 + len(payload), kind, REQUEST | flags, number, 0) + payload


def send_requests(protocol: int, messages: Sequence[bytes], *, answers: int) -> None:
    """Send requests together and wait until that many were acknowledged.

    Raises:
        OSError: The kernel refused one, with its errno; or it did not answer in time.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as kernel:
        kernel.bind((0, 0))
        kernel.settimeout(_REPLY_TIMEOUT_S)
        kernel.send(b"".join(messages))
        while answers > 0:
            for error in _acknowledgements(kernel.recv(65536)):
                if error:
                    raise OSError(error, os.strerror(error))
                answers -= 1


def _acknowledgements(data: bytes) -> list[int]:
    errors: list[int] = []
    offset = 0
    while offset + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, offset)
        if kind == _ERROR:
            errors.append(-struct.unpack_from("=i", data, offset + 16)[0])
        offset += max(16, (length + 3) & ~3)
    return errors


def add_local_route(prefix: str) -> None:
    """Make every address of a prefix local, so that a connection there ends at a listener here.

    Raises:
        OSError: The kernel refused.
    """
    network = ipaddress.ip_network(prefix)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    fixed = struct.pack(
        "=BBBBBBBBI", family, network.prefixlen, 0, 0, _TABLE_LOCAL, _BY_BOOT, _SCOPE_HOST, _TYPE_LOCAL, 0
    )
    attributes = attribute(_OUT_INTERFACE, struct.pack("=i", _LOOPBACK_INDEX))
    if network.prefixlen:
        attributes += attribute(_DESTINATION, network.network_address.packed)
    request = build_message(_NEW_ROUTE, ACKNOWLEDGE | CREATE, 1, fixed + attributes)
    send_requests(_ROUTE_PROTOCOL, [request], answers=1)


_NETFILTER = 12
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = (_SUBSYSTEM << 8 | kind for kind in (0, 3, 6))
_ANY, _IPV4, _IPV6 = 0, 2, 10
_TABLE, _CHAIN = b"cage\0", b"leaving\0"
_LEAVING, _DESTINATION_NAT = 3, -100  # the OUTPUT hook, and the priority of destination NAT there
_ACCEPT = 1
_EQUAL, _UNEQUAL = 0, 1
_REGISTER = 1
_NETWORK_HEADER = 1
_DESTINATION_AT = {_IPV4: 16, _IPV6: 24}  # offset of the destination address in the IP header
_TRANSPORT_PROTOCOL = 16  # NFT_META_L4PROTO
_PORT_GIVEN = 2

_ORIGINAL_DESTINATION = 80


def redirect_tcp(prefixes: Sequence[str], port: int) -> None:
    """Redirect TCP for these prefixes of the current network namespace to a local port. `!` negates a prefix.

    Raises:
        OSError: The kernel refused; ENOENT or EOPNOTSUPP where it has no nf_tables or no nat.
    """
    for family in (_IPV4, _IPV6):
        own = [prefix for prefix in prefixes if (":" in prefix) == (family == _IPV6)]
        if own:
            _install(family, [_rule(family, prefix, port) for prefix in own])


def original_destination(connection: socket.socket) -> tuple[str, int]:
    """The address and port that a redirected connection was made to (SO_ORIGINAL_DST).

    Raises:
        OSError: It is not known (any more).
    """
    if connection.family == socket.AF_INET6:
        raw = connection.getsockopt(socket.IPPROTO_IPV6, _ORIGINAL_DESTINATION, 28)
        return socket.inet_ntop(socket.AF_INET6, raw[8:24]), int.from_bytes(raw[2:4], "big")
    raw = connection.getsockopt(socket.IPPROTO_IP, _ORIGINAL_DESTINATION, 16)
    return socket.inet_ntoa(raw[4:8]), int.from_bytes(raw[2:4], "big")


def _install(family: int, rules: Sequence[bytes]) -> None:
    """Create table, chain and rules in one transaction: all or nothing."""
    hook = nested(4, attribute(1, _be32(_LEAVING)), attribute(2, struct.pack(">i", _DESTINATION_NAT)))
    chain = attribute(1, _TABLE) + attribute(3, _CHAIN) + attribute(7, b"nat\0") + attribute(5, _be32(_ACCEPT)) + hook
    requests = [
        (_NEW_TABLE, ACKNOWLEDGE, attribute(1, _TABLE) + attribute(2, _be32(0))),
        (_NEW_CHAIN, ACKNOWLEDGE | CREATE, chain),
        *((_NEW_RULE, ACKNOWLEDGE | CREATE | APPEND, rule) for rule in rules),
    ]
    messages = [build_message(_BATCH_BEGIN, 0, 0, _netfilter_header(_ANY, _SUBSYSTEM))]
    for number, (kind, flags, payload) in enumerate(requests, start=1):
        messages.append(build_message(kind, flags, number, _netfilter_header(family) + payload))
    messages.append(build_message(_BATCH_END, 0, len(messages), _netfilter_header(_ANY, _SUBSYSTEM)))
    send_requests(_NETFILTER, messages, answers=len(requests))


def _rule(family: int, prefix: str, port: int) -> bytes:
    operator = _UNEQUAL if prefix.startswith("!") else _EQUAL
    network = ipaddress.ip_network(prefix.removeprefix("!"))
    # Comparing whole bytes needs no mask, and no plan needs anything finer.
    length, odd_bits = divmod(network.prefixlen, 8)
    if odd_bits or not length:
        raise ValueError(f"{prefix} does not end at a byte")
    expressions = nested(
        4,
        _build_expression("meta", attribute(1, _be32(_REGISTER)), attribute(2, _be32(_TRANSPORT_PROTOCOL))),
        _compare_expression(_EQUAL, bytes([socket.IPPROTO_TCP])),
        _build_expression(
            "payload",
            attribute(1, _be32(_REGISTER)),
            attribute(2, _be32(_NETWORK_HEADER)),
            attribute(3, _be32(_DESTINATION_AT[family])),
            attribute(4, _be32(length)),
        ),
        _compare_expression(operator, network.network_address.packed[:length]),
        _build_expression(
            "immediate", attribute(1, _be32(_REGISTER)), nested(2, attribute(1, struct.pack(">H", port)))
        ),
        _build_expression("redir", attribute(1, _be32(_REGISTER)), attribute(3, _be32(_PORT_GIVEN))),
    )
    return attribute(1, _TABLE) + attribute(2, _CHAIN) + expressions


def _build_expression(name: str, *attributes: bytes) -> bytes:
    return nested(1, attribute(1, name.encode() + b"\0"), nested(2, *attributes))


def _compare_expression(operator: int, value: bytes) -> bytes:
    return _build_expression(
        "cmp", attribute(1, _be32(_REGISTER)), attribute(2, _be32(operator)), nested(3, attribute(1, value))
    )


def _netfilter_header(family: int, resource: int = 0) -> bytes:
    return struct.pack(">BBH", family, 0, resource)


def _be32(value: int) -> bytes:
    return struct.pack(">I", value)
