"""Requests that stand for themselves (2026-07-28): each says what a handshake would have settled."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from paddock.core.call import CallContext
from paddock.gateway.exchange import Exchange, Tell
from paddock.gateway.methods import MISSING_CAPABILITY, Methods, meta_of
from paddock.gateway.revisions import HANDSHAKE, LEVELS, NOTHING, STATELESS, asks_of
from paddock.gateway.waiting_calls import WaitingCalls
from paddock.rpc.faults import INVALID_PARAMS, RpcFault
from paddock.rpc.message import Request

HEADER_MISMATCH: Final = -32020
UNSUPPORTED_REVISION: Final = -32022

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"

_VERSION: Final = b"mcp-protocol-version"
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"
_NAMED: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)

HTTP_STATUS: Final[Mapping[int, int]] = {
    -32700: 400, -32600: 400, -32602: 400, HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400, UNSUPPORTED_REVISION: 400,
    -32601: 404,
}  # fmt: skip
"""Of an answer that is an error, by its number; what is not here has the status of any answer."""


class Stateless:
    """Answers them.

    Args:
        methods: What is asked for.
        waiting: Calls that wait for what their clients were asked.
    """

    def __init__(self, methods: Methods, waiting: WaitingCalls) -> None:
        self._methods = methods
        self._waiting = waiting

    async def result(
        self,
        request: Request,
        context: CallContext,
        tell: Tell | None,
        headers: Iterable[tuple[bytes, bytes]] | None = None,
    ) -> bytes:
        """The result of a request; `headers` are those that it came with over HTTP.

        Raises:
            RpcFault: it cannot be served.
        """
        params = request.params
        meta = meta_of(params)
        _require_said(meta)
        if headers is not None:
            require_headers(request, headers)
        revision = STATELESS.get(meta[VERSION_KEY])
        if revision is None:
            raise unsupported(meta[VERSION_KEY])
        level = meta.get(LEVEL_KEY)
        if level is not None and level not in LEVELS:
            raise RpcFault(INVALID_PARAMS, f"`{LEVEL_KEY}` is none of {', '.join(LEVELS)}")
        exchange = Exchange(context, revision, asks_of(revision, meta[CAPABILITIES_KEY]), level, tell, request.id)
        if request.method in _NAMED and exchange.asks is not NOTHING:
            return await self._waiting.result(exchange, request, self._methods.serve)
        return await self._methods.serve(exchange, request.method, params)


def stands_alone(request: Request) -> bool:
    """Whether a request brings what a handshake would have settled. No handshake does."""
    return request.method != "initialize" and VERSION_KEY in meta_of(request.params)


def _require_said(meta: Mapping[str, Any]) -> None:
    """Refuse a request that does not say what a handshake would have settled.

    Raises:
        RpcFault: it does not.
    """
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise RpcFault(INVALID_PARAMS, f"`_meta` has no {' and no '.join(missing)}")
    if not isinstance(meta[VERSION_KEY], str):
        raise RpcFault(INVALID_PARAMS, f"`{VERSION_KEY}` is not text")
    if not isinstance(meta[CAPABILITIES_KEY], dict):
        raise RpcFault(INVALID_PARAMS, f"`{CAPABILITIES_KEY}` is not an object")


def unsupported(wanted: str) -> RpcFault:
    """What a client is told whose revision we do not serve."""
    data = {"supported": [*STATELESS, *reversed(tuple(HANDSHAKE))], "requested": wanted}
    return RpcFault(UNSUPPORTED_REVISION, "Unsupported protocol version", data)


def require_headers(request: Request, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a request whose headers say something else than its body: whoever is on the way goes by the headers.

    Raises:
        RpcFault: they do, or one is missing or stands twice.
    """
    told: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in (_VERSION, _METHOD, _NAME):
            if name in told:
                raise RpcFault(HEADER_MISMATCH, f"the header {name.decode()} stands twice")
            told[name] = value
    wanted = meta_of(request.params).get(VERSION_KEY)
    _require(told, _VERSION, wanted)
    _require(told, _METHOD, request.method)
    field = _NAMED.get(request.method)
    named: Any = request.params.get(field) if field is not None else None
    if named is not None:
        _require(told, _NAME, named)


def _require(told: Mapping[bytes, bytes], name: bytes, wanted: Any) -> None:
    value = told.get(name)
    if value is None:
        raise RpcFault(HEADER_MISMATCH, f"the header {name.decode()} is missing")
    written = value.decode("latin-1").strip(" \t")
    said = _decoded(written) if name == _NAME else written
    if said is None or said != wanted:
        raise RpcFault(HEADER_MISMATCH, f"the header {name.decode()} says something else than the body")


def _decoded(value: str) -> str | None:
    """What a header says that may be written in base64; None where that is badly done."""
    encoded = _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
