"""Decodes and encodes one line of JSON-RPC 2.0. Pure: nothing here does I/O or keeps state.

What we accept is narrower than the standard where a wider reading would let two sides disagree:

- A line that is no JSON, or JSON that is neither object nor array, is a `NonRpcLine`: a program printed something.
  NaN, Infinity, a byte order mark and broken UTF-8 are no JSON.
- An array is a batch, and batches are not accepted.
- `params` is an object or absent. Ids are integers or short text: not null, not true, not 1.0, and no integer beyond
  64 bits, which the parser would round.
- Of duplicate keys the last one counts. There is one parser and the line is never parsed a second time, so
  no other reader can understand it differently; a message that is both request and response is refused.
- Containers may be nested 64 deep.

What we write is plain JSON only: dates, dataclasses and subclasses of `str` and `dict` are refused rather than guessed.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final, Literal, TypeGuard

import orjson
from msgspec import Struct

from paddock.core.schema.json_value import MAX_DEPTH
from paddock.rpc.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, NO_EFFECT, RpcError, error_member

_NOT_STRUCTURE: Final = bytes(byte for byte in range(256) if byte not in b"{}[],:")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"{}[]")
# +1 for each opening and, as a signed byte, -1 for each closing bracket
_DEPTH_STEPS: Final = bytes.maketrans(b"{[]}", b"\x01\x01\xff\xff")


class StructureCounter:
    """Counts `{}[],:` outside strings, over any number of chunks of one text.

    For text that is no JSON the count means nothing, and does no harm: the parser refuses it.
    """

    __slots__ = ("_escaped", "_quoted", "_total")

    def __init__(self) -> None:
        self._quoted = False  # the last chunk ended inside a string
        self._escaped = False  # and on a backslash
        self._total = 0

    def count(self, chunk: bytes) -> int:
        """The total so far, this chunk included."""
        if self._escaped and chunk:
            self._escaped = False
            if chunk[0] in b'"\\':  # it belongs to the backslash before it
                chunk = chunk[1:]
        # Remove pairs of backslashes first: what is left of a run of them then escapes the byte behind it.
        chunk = chunk.replace(b"\\\\", b"")
        if chunk.endswith(b"\\"):
            self._escaped = True
        runs = chunk.replace(b'\\"', b"").split(b'"')
        outside = runs[1::2] if self._quoted else runs[::2]
        self._quoted ^= len(runs) % 2 == 0
        self._total += len(b"".join(outside).translate(None, _NOT_STRUCTURE))
        return self._total


def exceeds_depth(text: bytes, depth: int) -> bool:
    """Whether the containers of a valid JSON text are nested more than `depth` deep.

    Scans the bytes alone: walking a dense value takes longer than parsing it.
    """
    outside = b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    steps = memoryview(outside.translate(_DEPTH_STEPS, _NOT_BRACKETS)).cast("b")
    return max(accumulate(steps), default=0) > depth


MAX_FRAME_BYTES: Final = 4 * 1024 * 1024
MAX_ID_CHARS: Final = 128

MessageId = int | str

_STRICT: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_APPEND_NEWLINE
)
_loads = orjson.loads
_dumps = orjson.dumps
_ABSENT: Final = object()


class RpcRequest(Struct, frozen=True):
    """A request; the sender expects a response under this id."""

    id: MessageId
    method: str
    params: dict[str, Any]


class RpcNotification(Struct, frozen=True):
    """A notification; no response is expected."""

    method: str
    params: dict[str, Any]


class RpcResult(Struct, frozen=True):
    """A successful response."""

    id: MessageId
    value: Any


class RpcFailure(Struct, frozen=True):
    """An error response; without an id when they could not read the request."""

    id: MessageId | None
    error: RpcError


class MalformedMessage(Struct, frozen=True):
    """JSON that is not a message by the rules above.

    `meant_as` is what it was probably meant to be: only a request gets a response.
    """

    code: int
    reason: str
    id: MessageId | None = None
    kind: Literal["batch", "malformed", "too_deep"] = "malformed"
    meant_as: Literal["request", "notification", "answer"] = "request"


class NonRpcLine(Struct, frozen=True):
    """A line that is no JSON-RPC at all."""

    line: bytes


RpcMessage = RpcRequest | RpcNotification | RpcResult | RpcFailure | MalformedMessage | NonRpcLine


def decode(frame: bytes) -> RpcMessage:
    """Decode a line. Takes any bytes and never raises."""
    try:
        value = _loads(frame)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("depth limit exceeded"):
            return _too_deep({})
        return NonRpcLine(frame)
    if not _is_object(value):
        if isinstance(value, list):
            return MalformedMessage(INVALID_REQUEST, "batches are not accepted", kind="batch")
        return NonRpcLine(frame)
    # Each level takes two bytes, so most lines are too short to be deep, and few of the others open enough.
    if (
        len(frame) > 2 * MAX_DEPTH
        and frame.count(b"[") + frame.count(b"{") > MAX_DEPTH
        and exceeds_depth(frame, MAX_DEPTH)
    ):
        return _too_deep(value)
    if value.get("jsonrpc") != "2.0":
        return _malformed(value, '`jsonrpc` is not "2.0"')
    if "method" in value:
        return _decode_call(value)
    return _decode_answer(value)


def encode_request(id: MessageId, method: str, params: dict[str, Any] | None = None) -> bytes:  # noqa: A002
    """Encode a request.

    Raises:
        RpcError: It contains what JSON cannot, or is over 4 MiB.
    """
    return _encode_line({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}, INVALID_PARAMS)


def encode_notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    """Encode a notification.

    Raises:
        RpcError: It contains what JSON cannot, or is over 4 MiB.
    """
    return _encode_line({"jsonrpc": "2.0", "method": method, "params": params or {}}, INVALID_PARAMS)


def encode_result(id: MessageId, value: Any) -> bytes:  # noqa: A002
    """Encode a response.

    Raises:
        RpcError: It contains what JSON cannot, or is over 4 MiB.
    """
    return _encode_line({"jsonrpc": "2.0", "id": id, "result": value}, INTERNAL_ERROR)


def encode_failure(id: MessageId | None, error: RpcError) -> bytes:  # noqa: A002
    """Encode an error response. Never raises: data that does not fit or is no JSON is left out, then the message.

    The `no_effect` flag is kept.
    """
    bare = {NO_EFFECT: True} if _is_object(error.data) and error.data.get(NO_EFFECT) is True else None
    placeholder = RpcError(error.code, "the error cannot be written", bare)
    for variant in (error, RpcError(error.code, error.message, bare), placeholder):
        try:
            return _encode_line({"jsonrpc": "2.0", "id": id, "error": error_member(variant)}, INTERNAL_ERROR)
        except RpcError:
            continue
    raise AssertionError("a number and a constant can be written")


def _encode_line(message: dict[str, Any], code: int) -> bytes:
    try:
        line = _dumps(message, None, _STRICT)
    except orjson.JSONEncodeError as error:
        raise RpcError(code, f"the message cannot be written as JSON: {error}") from error
    if len(line) > MAX_FRAME_BYTES + 1:  # the newline is not part of the line
        raise RpcError(code, f"the message has {len(line) - 1} bytes, and at most {MAX_FRAME_BYTES} are allowed")
    return line


def _decode_call(value: dict[str, Any]) -> RpcRequest | RpcNotification | MalformedMessage:
    method = value["method"]
    params = value.get("params", _ABSENT)
    if type(method) is not str or "result" in value or "error" in value:
        return _malformed(value, "`method` is not text, or stands beside a result or error")
    if params is _ABSENT:
        params = {}
    id = value.get("id", _ABSENT)  # noqa: A001
    if id is _ABSENT:
        if not _is_object(params):
            return _malformed(value, "`params` is not an object", INVALID_PARAMS)
        return RpcNotification(method, params)
    if not _is_id(id):
        return _malformed(value, "`id` is neither an integer of 64 bits nor short text")
    if not _is_object(params):
        return _malformed(value, "`params` is not an object", INVALID_PARAMS)
    return RpcRequest(id, method, params)


def _decode_answer(value: dict[str, Any]) -> RpcResult | RpcFailure | MalformedMessage:
    id = value.get("id", _ABSENT)  # noqa: A001
    error = value.get("error", _ABSENT)
    if error is _ABSENT:
        if "result" not in value:
            return _malformed(value, "there is no `method`, no `result` and no `error`")
        if not _is_id(id):
            return _malformed(value, "`id` is neither an integer of 64 bits nor short text")
        return RpcResult(id, value["result"])
    if "result" in value:
        return _malformed(value, "`result` and `error` stand side by side")
    if id is not None and not _is_id(id):
        return _malformed(value, "`id` is neither an integer of 64 bits nor short text")
    if not _is_object(error) or type(error.get("code")) is not int or type(error.get("message")) is not str:
        return _malformed(value, "`error` is not an object with a whole number `code` and a text `message`")
    return RpcFailure(id, RpcError(error["code"], error["message"], error.get("data")))


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_id(id: Any) -> TypeGuard[MessageId]:  # noqa: A002
    # type(), not isinstance(): True is an int to Python.
    return type(id) is int or (type(id) is str and len(id) <= MAX_ID_CHARS)


def _malformed(value: dict[str, Any], reason: str, code: int = INVALID_REQUEST) -> MalformedMessage:
    id = value.get("id", _ABSENT)  # noqa: A001
    readable = id if _is_id(id) else None
    if "method" not in value and ("result" in value or "error" in value):
        return MalformedMessage(code, reason, readable, meant_as="answer")
    if "method" in value and id is _ABSENT and code == INVALID_PARAMS:
        return MalformedMessage(code, reason, meant_as="notification")
    return MalformedMessage(code, reason, readable)


def _too_deep(value: dict[str, Any]) -> MalformedMessage:
    malformed = _malformed(value, f"nested more than {MAX_DEPTH} levels deep")
    return MalformedMessage(malformed.code, malformed.reason, malformed.id, "too_deep", malformed.meant_as)
