"""JSON-RPC on lines: read a request, find its method, write the answer. Knows nothing of what the methods do."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

LIMIT = 4 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603

Method: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class RpcError(Exception):
    """An error answer."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


def serve(methods: Mapping[str, Method]) -> None:
    """Answer every line until the other side closes the pipe."""
    answers = os.dup(1)
    os.dup2(2, 1)  # a stray print lands in the log
    while line := sys.stdin.buffer.readline(LIMIT + 1):
        too_long = len(line) > LIMIT and not line.endswith(b"\n")
        while too_long and line and not line.endswith(b"\n"):
            line = sys.stdin.buffer.readline(LIMIT)
        answer = _error(None, INVALID_REQUEST, f"over {LIMIT} bytes") if too_long else _answer(methods, line)
        if answer is not None:
            try:
                _write(answers, json.dumps(answer, separators=(",", ":")).encode() + b"\n")
            except BrokenPipeError:
                return


def _answer(methods: Mapping[str, Method], line: bytes) -> dict[str, Any] | None:
    """The response to one line; None where there is none."""
    try:
        message: Any = json.loads(line.decode())
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "the line is not JSON")
    request = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
    request_id = request.get("id")
    if "method" not in request and ("result" in request or "error" in request):
        return None  # an answer, and we asked nothing
    sound_id = "id" not in request or (isinstance(request_id, str | int) and not isinstance(request_id, bool))
    if request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str) or not sound_id:
        return _error(request_id if request and sound_id else None, INVALID_REQUEST, "not a JSON-RPC 2.0 request")
    if "id" not in request:
        return None  # a notification: there is none that changes anything here
    try:
        return {"jsonrpc": "2.0", "id": request_id, "result": _call(methods, request)}
    except RpcError as error:
        return {"jsonrpc": "2.0", "id": request_id, "error": error.error}
    except Exception as error:
        log("error", "a method failed", method=request["method"], error=repr(error))
        return _error(request_id, INTERNAL_ERROR, f"the server failed ({type(error).__name__})")


def _call(methods: Mapping[str, Method], request: dict[str, Any]) -> dict[str, Any]:
    method = methods.get(request["method"])
    if method is None:
        raise RpcError(METHOD_NOT_FOUND, f"there is no method {request['method'][:128]!r}")
    params: Any = request.get("params", {})
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object")
    return method(cast("dict[str, Any]", params))


def _error(request_id: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def log(level: str, message: str, **fields: Any) -> None:
    """One JSON line on stderr."""
    sys.stderr.write(json.dumps({"level": level, "message": message, **fields}, default=str) + "\n")
    sys.stderr.flush()
