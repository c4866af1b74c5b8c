"""What servers elsewhere answer: errors of HTTP's as faults, and a look into a message before it is passed on."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from paddock.core.json_value import MAX_DEPTH
from paddock.plugins.runtimes.mcp.wire import ASKED_DURING
from paddock.rpc.faults import METHOD_NOT_FOUND, NO_EFFECT, RpcFault
from paddock.rpc.framing import COUNTED_FROM, MAX_STRUCTURE
from paddock.rpc.http_client import Response, TooLarge
from paddock.rpc.structure import StructureCounter, nested_deeper

UNANSWERED: Final = -32000
# Who answers so has looked at who asks, for what, how often and in which form, and has not handed it on. Whatever else
# goes wrong may go wrong on the way back.
_AT_THE_DOOR: Final = frozenset({401, 403, 404, 405, 406, 413, 415, 429})
_MOST_OF_AN_ERROR: Final = 64 * 1024


async def refusal_of(response: Response) -> RpcFault:
    """What a server says that answers with an error of HTTP's."""
    status = response.status
    told: dict[str, Any] | None = None
    if response.content_type == "application/json":
        with contextlib.suppress(TooLarge):
            told = peek(await response.body(_MOST_OF_AN_ERROR))
    error = told.get("error") if told is not None else None
    if isinstance(error, dict):
        about = cast("dict[str, Any]", error)
        if isinstance(about.get("code"), int) and isinstance(about.get("message"), str):
            return RpcFault(about["code"], about["message"], about.get("data", _about(status)))
    return refused_with(status)


def refused_with(status: int) -> RpcFault:
    """What an error of HTTP's says by itself."""
    words = {401: "the server wants to know who asks", 403: "the server does not let us in"}
    code = METHOD_NOT_FOUND if status in (404, 405) else UNANSWERED
    return RpcFault(code, words.get(status, f"the server answered with status {status}"), _about(status))


def _about(status: int) -> dict[str, Any]:
    return {"http_status": status, NO_EFFECT: True} if status in _AT_THE_DOOR else {"http_status": status}


def peek(line: bytes) -> dict[str, Any] | None:
    """The message in a line; None where it is none, or would take too long to read."""
    if len(line) > COUNTED_FROM and StructureCounter().count(line) > MAX_STRUCTURE:
        return None
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def asked_during(line: bytes, told: dict[str, Any], message: Mapping[str, Any] | None) -> bytes:
    """A request of the server's, with the number of the one of ours that it belongs to.

    One that a peer refuses to read stays as it is: it may be nested too deep to be written.
    """
    given = told.get("params", {})
    if not isinstance(given, dict) or nested_deeper(line, MAX_DEPTH):
        return line
    params = cast("dict[str, Any]", given)
    before = params.get("_meta")
    meta = dict(cast("dict[str, Any]", before)) if isinstance(before, dict) else {}
    meta.pop(ASKED_DURING, None)  # ours to say
    if message is not None:
        meta[ASKED_DURING] = message["id"]
    return orjson.dumps({**told, "params": {**params, "_meta": meta}})
