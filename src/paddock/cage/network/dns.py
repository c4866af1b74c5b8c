"""A name server's answers, made up: which address inside the cage stands for a name. Pure.

No question leaves the machine, so no name can carry data out: the host looks a name up only when the plugin really
connects to the address that it was given here. Names that are not granted do not exist. Only IPv4 addresses are given;
which kind the outside uses is the host's business.
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


def answer_query(question: bytes, address_of: Callable[[str], str | None]) -> DnsReply | None:
    """The answer to one datagram; None where there is nothing that could be answered.

    `address_of` gives the IPv4 address that stands for a name (in lower case, without a dot at the end), or None where
    the name is not granted.
    """
    if not _HEADER.size <= len(question) <= MAX_QUERY_BYTES:
        return None
    number, flags, questions, *_ = _HEADER.unpack_from(question)
    if flags & _RESPONSE:
        return None
    if flags & _OPERATION:
        return DnsReply(_pack_header(number, flags, _NOT_DONE))
    try:
        name, end = _parse_name(question, questions)
        kind, internet = struct.unpack_from("!HH", question, end)
    except (_Unreadable, struct.error):
        return DnsReply(_pack_header(number, flags, _BAD_FORM))
    asked = question[_HEADER.size : end + 4]
    address = address_of(name) if internet == _INTERNET else None
    if address is None:
        return DnsReply(_pack_header(number, flags, _NO_SUCH_NAME, questions=1) + asked, name)
    if kind != _ADDRESS:
        return DnsReply(_pack_header(number, flags, _NO_ERROR, questions=1) + asked, name, found=True)
    record = _NAME_FROM_QUESTION + struct.pack("!HHIH", _ADDRESS, _INTERNET, TTL_S, 4)
    packed = ipaddress.IPv4Address(address).packed
    return DnsReply(
        _pack_header(number, flags, _NO_ERROR, questions=1, answers=1) + asked + record + packed, name, found=True
    )


def _pack_header(number: int, flags: int, code: int, *, questions: int = 0, answers: int = 0) -> bytes:
    kept = flags & (_ASKED_FOR_RECURSION | _OPERATION)
    return _HEADER.pack(number, _RESPONSE | _AUTHORITATIVE | _RECURSION | kept | code, questions, answers, 0, 0)


def _parse_name(question: bytes, questions: int) -> tuple[str, int]:
    """The one name that is asked for, and where it ends. A question has no reason to point elsewhere, so none may."""
    if questions != 1:
        raise _Unreadable
    labels: list[str] = []
    at = _HEADER.size
    while True:
        if at >= len(question):
            raise _Unreadable
        length = question[at]
        at += 1
        if length == 0:
            break
        label = question[at : at + length]
        if len(label) != length or not _LABEL.fullmatch(label):
            raise _Unreadable
        labels.append(label.decode("ascii").lower())
        at += length
    name = ".".join(labels)
    if not name or len(name) > 253:
        raise _Unreadable
    return name, at


class SyntheticAddresses:
    """Addresses given out for names, and the way back. Bounded: whoever was asked for longest ago is forgotten first.

    An answer holds for `SECONDS_VALID`, and until then its address must mean nothing else. So more names are remembered
    than a plugin can ask for in that time (`relay.py` says how fast that is).
    """

    def __init__(self, prefix: str, *, most: int = 65536) -> None:
        network = ipaddress.IPv4Network(prefix)
        self._first = int(network.network_address) + 1
        self._most = min(most, network.num_addresses - 2)
        self._addresses: OrderedDict[str, str] = OrderedDict()  # the name last asked for comes last
        self._names: dict[str, str] = {}

    def address_for(self, name: str) -> str:
        """The address that stands for a name; the same one as long as it is remembered."""
        address = self._addresses.get(name) or self._next_free()
        self._addresses[name], self._names[address] = address, name
        self._addresses.move_to_end(name)
        return address

    def name_for(self, address: str) -> str | None:
        """The name that an address was given out for."""
        return self._names.get(address)

    def _next_free(self) -> str:
        if len(self._addresses) < self._most:
            return str(ipaddress.IPv4Address(self._first + len(self._addresses)))
        return self._addresses.popitem(last=False)[1]
