"""One line of JSON-RPC 2.0 as a value, and back. Pure: nothing here reads, writes or remembers.

What we accept is narrower than the standard where a wider reading would let two sides disagree:

- A line that is no JSON, or JSON that is neither object nor array, is `Noise`: a program printed something.
  NaN, Infinity, a byte order mark and broken UTF-8 are no JSON.
- An array is a batch, and batches are not accepted.
- `params` is an object or absent. Ids are integers or short text: not null, not true, not 1.0, and no integer beyond
  64 bits, which the parser would round.
- A key that stands twice counts as written last. There is one parser and no one reads the line a second time, so
  there is nobody to understand it otherwise; a message that is both request and answer is refused.
- Containers may be nested 64 deep.

What we write is plain JSON only: dates, dataclasses and subclasses of `str` and `dict` are refused rather than guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeGuard

import orjson

from paddock.core.json_value import MAX_DEPTH
from paddock.rpc.faults import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, NO_EFFECT, RpcFault, to_wire
from paddock.rpc.structure import nested_deeper

MAX_FRAME: Final = 4 * 1024 * 1024
MAX_ID_TEXT: Final = 128

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


@dataclass(frozen=True, slots=True)
class Request:
    """They ask, and expect an answer under this id."""

    id: MessageId
    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """They tell, and expect nothing."""

    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """They answer."""

    id: MessageId
    value: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """They answer with an error; without an id when they could not read what it is an answer to."""

    id: MessageId | None
    fault: RpcFault


@dataclass(frozen=True, slots=True)
class Malformed:
    """JSON that is not a message by the rules above.

    `meant_as` is what it tried to be, as far as one can tell: only a request is answered.
    """

    code: int
    reason: str
    id: MessageId | None = None
    kind: Literal["batch", "malformed", "too_deep"] = "malformed"
    meant_as: Literal["request", "notification", "answer"] = "request"


@dataclass(frozen=True, slots=True)
class Noise:
    """A line that is no JSON-RPC at all."""

    line: bytes


Message = Request | Notification | Result | Failure | Malformed | Noise


def decode(frame: bytes) -> Message:
    """What a line says. Takes any bytes and never raises."""
    try:
        value = _loads(frame)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("depth limit exceeded"):
            return _too_deep({})
        return Noise(frame)
    if not _is_object(value):
        if isinstance(value, list):
            return Malformed(INVALID_REQUEST, "batches are not accepted", kind="batch")
        return Noise(frame)
    # Each level takes two bytes, so most lines are too short to be deep, and few of the others open enough.
    if (
        len(frame) > 2 * MAX_DEPTH
        and frame.count(b"[") + frame.count(b"{") > MAX_DEPTH
        and nested_deeper(frame, MAX_DEPTH)
    ):
        return _too_deep(value)
    if value.get("jsonrpc") != "2.0":
        return _malformed(value, '`jsonrpc` is not "2.0"')
    if "method" in value:
        return _asked(value)
    return _answered(value)


def encode_request(id: MessageId, method: str, params: dict[str, Any] | None = None) -> bytes:  # noqa: A002
    """A request as a line.

    Raises:
        RpcFault: it holds what JSON cannot, or is over 4 MiB.
    """
    return _line({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}, INVALID_PARAMS)


def encode_notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    """A notification as a line.

    Raises:
        RpcFault: it holds what JSON cannot, or is over 4 MiB.
    """
    return _line({"jsonrpc": "2.0", "method": method, "params": params or {}}, INVALID_PARAMS)


def encode_result(id: MessageId, value: Any) -> bytes:  # noqa: A002
    """An answer as a line.

    Raises:
        RpcFault: it holds what JSON cannot, or is over 4 MiB.
    """
    return _line({"jsonrpc": "2.0", "id": id, "result": value}, INTERNAL_ERROR)


def encode_failure(id: MessageId | None, fault: RpcFault) -> bytes:  # noqa: A002
    """An error answer as a line. Never raises: data that does not fit or is no JSON is left out, then the message.

    That nothing happened is still said.
    """
    bare = {NO_EFFECT: True} if _is_object(fault.data) and fault.data.get(NO_EFFECT) is True else None
    unwritten = RpcFault(fault.code, "the error cannot be written", bare)
    for told in (fault, RpcFault(fault.code, fault.message, bare), unwritten):
        try:
            return _line({"jsonrpc": "2.0", "id": id, "error": to_wire(told)}, INTERNAL_ERROR)
        except RpcFault:
            continue
    raise AssertionError("a number and a constant can be written")


def _line(message: dict[str, Any], code: int) -> bytes:
    try:
        line = _dumps(message, None, _STRICT)
    except orjson.JSONEncodeError as error:
        raise RpcFault(code, f"the message cannot be written as JSON: {error}") from error
    if len(line) > MAX_FRAME + 1:  # the newline is not part of the line
        raise RpcFault(code, f"the message has {len(line) - 1} bytes, and at most {MAX_FRAME} are allowed")
    return line


def _asked(value: dict[str, Any]) -> Request | Notification | Malformed:
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
        return Notification(method, params)
    if not _is_id(id):
        return _malformed(value, "`id` is neither an integer of 64 bits nor short text")
    if not _is_object(params):
        return _malformed(value, "`params` is not an object", INVALID_PARAMS)
    return Request(id, method, params)


def _answered(value: dict[str, Any]) -> Result | Failure | Malformed:
    id = value.get("id", _ABSENT)  # noqa: A001
    error = value.get("error", _ABSENT)
    if error is _ABSENT:
        if "result" not in value:
            return _malformed(value, "there is no `method`, no `result` and no `error`")
        if not _is_id(id):
            return _malformed(value, "`id` is neither an integer of 64 bits nor short text")
        return Result(id, value["result"])
    if "result" in value:
        return _malformed(value, "`result` and `error` stand side by side")
    if id is not None and not _is_id(id):
        return _malformed(value, "`id` is neither an integer of 64 bits nor short text")
    if not _is_object(error) or type(error.get("code")) is not int or type(error.get("message")) is not str:
        return _malformed(value, "`error` is not an object with a whole number `code` and a text `message`")
    return Failure(id, RpcFault(error["code"], error["message"], error.get("data")))


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_id(id: Any) -> TypeGuard[MessageId]:  # noqa: A002
    # type(), not isinstance(): True is an int to Python.
    return type(id) is int or (type(id) is str and len(id) <= MAX_ID_TEXT)


def _malformed(value: dict[str, Any], reason: str, code: int = INVALID_REQUEST) -> Malformed:
    id = value.get("id", _ABSENT)  # noqa: A001
    readable = id if _is_id(id) else None
    if "method" not in value and ("result" in value or "error" in value):
        return Malformed(code, reason, readable, meant_as="answer")
    if "method" in value and id is _ABSENT and code == INVALID_PARAMS:
        return Malformed(code, reason, meant_as="notification")
    return Malformed(code, reason, readable)


def _too_deep(value: dict[str, Any]) -> Malformed:
    found = _malformed(value, f"nested more than {MAX_DEPTH} levels deep")
    return Malformed(found.code, found.reason, found.id, "too_deep", found.meant_as)
