"""The DNS server of a cage, with synthetic answers: which address inside the cage stands for a name. Pure.

No query leaves the host, so no name can carry data out: the host resolves a name only when the plugin really
connects to the address that it was given here. Names that are not granted do not exist. Only IPv4 addresses are given;
the outside connection may use either version.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_QUERY_BYTES = 512
TTL_S = 60

_ADDRESS, _INTERNET = 1, 1
_RESPONSE, _AUTHORITATIVE, _RECURSION = 0x8000, 0x0400, 0x0080
_ASKED_FOR_RECURSION, _OPERATION = 0x0100, 0x7800
_NO_ERROR, _BAD_FORM, _NO_SUCH_NAME, _NOT_DONE = 0, 1, 3, 4
_HEADER = struct.Struct("!HHHHHH")
_NAME_FROM_QUESTION = b"\xc0\x0c"  # a pointer to the name that stands after the header
_LABEL = re.compile(rb"[A-Za-z0-9_-]{1,63}")


@dataclass(frozen=True, slots=True)
class DnsReply:
    """What to send back, and what was asked; the name is empty where the question could not be read."""

    data: bytes
    name: str = ""
    found: bool = False


class _Unreadable(ValueError):
    pass


def answer_query(query: bytes, address_of: Callable[[str], str | None]) -> DnsReply | None:
    """Answer one datagram; None where it is not a query at all.

    `address_of` gives the IPv4 address that stands for a name (in lower case, without a trailing dot), or None where
    the name is not granted.
    """
    if not _HEADER.size <= len(query) <= MAX_QUERY_BYTES:
        return None
    query_id, flags, questions, *_ = _HEADER.unpack_from(query)
    if flags & _RESPONSE:
        return None
    if flags & _OPERATION:
        return DnsReply(_pack_header(query_id, flags, _NOT_DONE))
    try:
        name, end = _parse_name(query, questions)
        query_type, query_class = struct.unpack_from("!HH", query, end)
    except (_Unreadable, struct.error):
        return DnsReply(_pack_header(query_id, flags, _BAD_FORM))
    question_section = query[_HEADER.size : end + 4]
    address = address_of(name) if query_class == _INTERNET else None
    if address is None:
        return DnsReply(_pack_header(query_id, flags, _NO_SUCH_NAME, questions=1) + question_section, name)
    if query_type != _ADDRESS:
        return DnsReply(_pack_header(query_id, flags, _NO_ERROR, questions=1) + question_section, name, found=True)
    record = _NAME_FROM_QUESTION + struct.pack("!HHIH", _ADDRESS, _INTERNET, TTL_S, 4)
    packed = ipaddress.IPv4Address(address).packed
    return DnsReply(
        _pack_header(query_id, flags, _NO_ERROR, questions=1, answers=1) + question_section + record + packed,
        name,
        found=True,
    )


def _pack_header(query_id: int, flags: int, code: int, *, questions: int = 0, answers: int = 0) -> bytes:
    echoed = flags & (_ASKED_FOR_RECURSION | _OPERATION)
    return _HEADER.pack(query_id, _RESPONSE | _AUTHORITATIVE | _RECURSION | echoed | code, questions, answers, 0, 0)


def _parse_name(query: bytes, questions: int) -> tuple[str, int]:
    """The one name in the query, and where it ends. Compression pointers have no use in a query and are refused."""
    if questions != 1:
        raise _Unreadable
    labels: list[str] = []
    offset = _HEADER.size
    while True:
        if offset >= len(query):
            raise _Unreadable
        length = query[offset]
        offset += 1
        if length == 0:
            break
        label = query[offset : offset + length]
        if len(label) != length or not _LABEL.fullmatch(label):
            raise _Unreadable
        labels.append(label.decode("ascii").lower())
        offset += length
    name = ".".join(labels)
    if not name or len(name) > 253:
        raise _Unreadable
    return name, offset


class SyntheticAddresses:
    """Synthetic addresses assigned to names, and the reverse lookup. Bounded: the least recently used name is evicted.

    An answer is valid for `TTL_S`, and until then its address must mean nothing else. So more names are remembered
    than a plugin can query in that time (`relay.py` has the rate).
    """

    def __init__(self, prefix: str, *, max_names: int = 65536) -> None:
        network = ipaddress.IPv4Network(prefix)
        self._first = int(network.network_address) + 1
        self._max_names = min(max_names, network.num_addresses - 2)
        self._addresses: OrderedDict[str, str] = OrderedDict()  # least recently used first
        self._names: dict[str, str] = {}

    def address_for(self, name: str) -> str:
        """The address for a name; the same one as long as it is remembered."""
        address = self._addresses.get(name) or self._next_free()
        self._addresses[name], self._names[address] = address, name
        self._addresses.move_to_end(name)
        return address

    def name_for(self, address: str) -> str | None:
        """The name that an address was assigned to."""
        return self._names.get(address)

    def _next_free(self) -> str:
        if len(self._addresses) < self._max_names:
            return str(ipaddress.IPv4Address(self._first + len(self._addresses)))
        return self._addresses.popitem(last=False)[1]
