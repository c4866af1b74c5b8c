"""Time stamps of RFC 3161: the request, and the few fields of the response that are checked here. Pure.

The signature of a response is checked by `openssl ts -verify`; this file checks that it answers the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

REQUEST_MEDIA_TYPE = "application/timestamp-query"
RESPONSE_MEDIA_TYPE = "application/timestamp-reply"

_INTEGER, _OCTETS, _OID, _TIME, _SEQUENCE, _EXPLICIT_0 = 0x02, 0x04, 0x06, 0x18, 0x30, 0xA0
_SHA256 = bytes.fromhex("300d06096086480165030402010500")  # AlgorithmIdentifier
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_TST_INFO = bytes.fromhex("2a864886f70d0109100104")
_TRUE = b"\x01\x01\xff"
_GRANTED = (b"\x00", b"\x01")  # granted, and granted with modifications


class TimeStampInvalid(Exception):
    """A response is no time stamp of the request."""


class TimeStamp(Struct, frozen=True):
    """What a response says: the hash it is over, when it was made, and the nonce of the request."""

    digest: bytes
    at: datetime
    nonce: int | None


def build_request(digest: bytes, nonce: int) -> bytes:
    """Build a TimeStampReq over a SHA-256 hash that asks for the authority's certificate."""
    imprint = _encode(_SEQUENCE, _SHA256 + _encode(_OCTETS, digest))
    return _encode(_SEQUENCE, _encode_integer(1) + imprint + _encode_integer(nonce) + _TRUE)


def parse_response(response: bytes) -> TimeStamp:
    """Parse a TimeStampResp.

    Raises:
        TimeStampInvalid: it is none, or the authority refused.
    """
    try:
        return _parse_response(response)
    except (IndexError, ValueError, StopIteration):
        raise TimeStampInvalid("the response is no time stamp in DER") from None


def require_answer(stamp: TimeStamp, digest: bytes, nonce: int | None = None) -> None:
    """Require that a time stamp is over this hash, and has the nonce of its request where that is known.

    Raises:
        TimeStampInvalid: it does not.
    """
    if stamp.digest != digest:
        raise TimeStampInvalid("the time stamp is over something else")
    if nonce is not None and stamp.nonce != nonce:
        raise TimeStampInvalid("the time stamp answers another request")


def _parse_response(response: bytes) -> TimeStamp:
    fields = _children(_only(response, _SEQUENCE))
    status = _children(_expect(next(fields), _SEQUENCE))
    if _expect(next(status), _INTEGER) not in _GRANTED:
        raise TimeStampInvalid("the authority refused to make a time stamp")
    token = _children(_expect(next(fields), _SEQUENCE))
    if _expect(next(token), _OID) != _SIGNED_DATA:
        raise ValueError
    signed = _children(_only(_expect(next(token), _EXPLICIT_0), _SEQUENCE))
    _version, _algorithms, content_info, *_ = signed
    content = _children(_expect(content_info, _SEQUENCE))
    if _expect(next(content), _OID) != _TST_INFO:
        raise ValueError
    info = list(_children(_only(_only(_expect(next(content), _EXPLICIT_0), _OCTETS), _SEQUENCE)))
    # version, policy, messageImprint, serialNumber, genTime, then optional fields; a nonce is the only plain integer.
    algorithm, digest = _children(_expect(info[2], _SEQUENCE))
    if _encode(*algorithm) not in (_SHA256, _SHA256[:1] + b"\x0b" + _SHA256[2:-2]):
        raise TimeStampInvalid("the time stamp is over another kind of hash")
    nonces = [int.from_bytes(value, "big") for tag, value in info[5:] if tag == _INTEGER]
    return TimeStamp(_expect(digest, _OCTETS), _parse_time(_expect(info[4], _TIME)), nonces[0] if nonces else None)


def _parse_time(text: bytes) -> datetime:
    digits = text.decode("ascii").removesuffix("Z").partition(".")[0]
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _encode(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _encode_integer(value: int) -> bytes:
    return _encode(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _children(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each value."""
    position = 0
    while position < len(content):
        tag, size = content[position], content[position + 1]
        position += 2
        if size & 0x80:
            count = size & 0x7F
            if not 0 < count <= 4:
                raise ValueError
            size = int.from_bytes(content[position : position + count], "big")
            position += count
        value = content[position : position + size]
        if len(value) != size:
            raise ValueError
        yield tag, value
        position += size


def _expect(value: tuple[int, bytes], tag: int) -> bytes:
    if value[0] != tag:
        raise ValueError
    return value[1]


def _only(content: bytes, tag: int) -> bytes:
    (value,) = _children(content)
    return _expect(value, tag)
