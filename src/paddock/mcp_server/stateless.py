"""Requests that stand for themselves (2026-07-28): each says what a handshake would have settled."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from paddock.core.call import CallContext
from paddock.mcp_server.exchange import McpExchange, SendMessage
from paddock.mcp_server.methods import MISSING_CAPABILITY, McpMethods, read_meta
from paddock.mcp_server.revisions import (
    HANDSHAKE_REVISIONS,
    LOG_LEVELS,
    NO_ELICITATION,
    STATELESS_REVISIONS,
    parse_elicitation_modes,
)
from paddock.mcp_server.suspended_calls import SuspendedCalls
from paddock.rpc.errors import INVALID_PARAMS, RpcError
from paddock.rpc.message import RpcRequest

HEADER_MISMATCH: Final = -32020
UNSUPPORTED_REVISION: Final = -32022

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"

_VERSION_HEADER: Final = b"mcp-protocol-version"
_METHOD_HEADER: Final = b"mcp-method"
_NAME_HEADER: Final = b"mcp-name"
_NAME_PARAMS: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_BASE64_HEADER: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)

FAULT_HTTP_STATUS: Final[Mapping[int, int]] = {
    -32700: 400, -32600: 400, -32602: 400, HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400, UNSUPPORTED_REVISION: 400,
    -32601: 404,
}  # fmt: skip
"""Of an answer that is an error, by its number; what is not here has the status of any answer."""


class StatelessRequests:
    """Answers them.

    Args:
        methods: What is asked for.
        waiting: Calls that wait for what their clients were asked.
    """

    def __init__(self, methods: McpMethods, waiting: SuspendedCalls) -> None:
        self._methods = methods
        self._suspended_calls = waiting

    async def handle(
        self,
        request: RpcRequest,
        context: CallContext,
        tell: SendMessage | None,
        headers: Iterable[tuple[bytes, bytes]] | None = None,
    ) -> bytes:
        """The result of a request; `headers` are those that it came with over HTTP.

        Raises:
            RpcFault: it cannot be served.
        """
        params = request.params
        meta = read_meta(params)
        _require_client_meta(meta)
        if headers is not None:
            require_headers(request, headers)
        revision = STATELESS_REVISIONS.get(meta[VERSION_KEY])
        if revision is None:
            raise unsupported_revision_fault(meta[VERSION_KEY])
        level = meta.get(LEVEL_KEY)
        if level is not None and level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"`{LEVEL_KEY}` is none of {', '.join(LOG_LEVELS)}")
        exchange = McpExchange(
            context, revision, parse_elicitation_modes(revision, meta[CAPABILITIES_KEY]), level, tell, request.id
        )
        if request.method in _NAME_PARAMS and exchange.elicitation_modes is not NO_ELICITATION:
            return await self._suspended_calls.handle(exchange, request, self._methods.dispatch)
        return await self._methods.dispatch(exchange, request.method, params)


def is_stateless_request(request: RpcRequest) -> bool:
    """Whether a request brings what a handshake would have settled. No handshake does."""
    return request.method != "initialize" and VERSION_KEY in read_meta(request.params)


def _require_client_meta(meta: Mapping[str, Any]) -> None:
    """Refuse a request that does not say what a handshake would have settled.

    Raises:
        RpcFault: it does not.
    """
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"`_meta` has no {' and no '.join(missing)}")
    if not isinstance(meta[VERSION_KEY], str):
        raise RpcError(INVALID_PARAMS, f"`{VERSION_KEY}` is not text")
    if not isinstance(meta[CAPABILITIES_KEY], dict):
        raise RpcError(INVALID_PARAMS, f"`{CAPABILITIES_KEY}` is not an object")


def unsupported_revision_fault(wanted: str) -> RpcError:
    """What a client is told whose revision we do not serve."""
    data = {"supported": [*STATELESS_REVISIONS, *reversed(tuple(HANDSHAKE_REVISIONS))], "requested": wanted}
    return RpcError(UNSUPPORTED_REVISION, "Unsupported protocol version", data)


def require_headers(request: RpcRequest, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a request whose headers say something else than its body: whoever is on the way goes by the headers.

    Raises:
        RpcFault: they do, or one is missing or stands twice.
    """
    told: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER):
            if name in told:
                raise RpcError(HEADER_MISMATCH, f"the header {name.decode()} stands twice")
            told[name] = value
    wanted = read_meta(request.params).get(VERSION_KEY)
    _require_header(told, _VERSION_HEADER, wanted)
    _require_header(told, _METHOD_HEADER, request.method)
    field = _NAME_PARAMS.get(request.method)
    named: Any = request.params.get(field) if field is not None else None
    if named is not None:
        _require_header(told, _NAME_HEADER, named)


def _require_header(told: Mapping[bytes, bytes], name: bytes, wanted: Any) -> None:
    value = told.get(name)
    if value is None:
        raise RpcError(HEADER_MISMATCH, f"the header {name.decode()} is missing")
    written = value.decode("latin-1").strip(" \t")
    said = _decode_header(written) if name == _NAME_HEADER else written
    if said is None or said != wanted:
        raise RpcError(HEADER_MISMATCH, f"the header {name.decode()} says something else than the body")


def _decode_header(value: str) -> str | None:
    """What a header says that may be written in base64; None where that is badly done."""
    encoded = _BASE64_HEADER.fullmatch(value)
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
