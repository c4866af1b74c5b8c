"""Stateless requests (2026-07-28): each carries what a handshake would have negotiated."""

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
"""HTTP status of error responses by RPC code; all others have status 200."""


class StatelessRequests:
    """Serves stateless requests.

    Args:
        methods: Answers requests.
        suspended_calls: Calls that wait for answers of their clients.
    """

    def __init__(self, methods: McpMethods, suspended_calls: SuspendedCalls) -> None:
        self._methods = methods
        self._suspended_calls = suspended_calls

    async def handle(
        self,
        request: RpcRequest,
        context: CallContext,
        send: SendMessage | None,
        headers: Iterable[tuple[bytes, bytes]] | None = None,
    ) -> bytes:
        """Return the result of a request; `headers` are those of its HTTP request.

        Raises:
            RpcError: it cannot be served.
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
            context, revision, parse_elicitation_modes(revision, meta[CAPABILITIES_KEY]), level, send, request.id
        )
        if request.method in _NAME_PARAMS and exchange.elicitation_modes is not NO_ELICITATION:
            return await self._suspended_calls.handle(exchange, request, self._methods.dispatch)
        return await self._methods.dispatch(exchange, request.method, params)


def is_stateless_request(request: RpcRequest) -> bool:
    """Return whether a request carries what a handshake would have negotiated."""
    return request.method != "initialize" and VERSION_KEY in read_meta(request.params)


def _require_client_meta(meta: Mapping[str, Any]) -> None:
    """Check that a request carries what a handshake would have negotiated.

    Raises:
        RpcError: it does not.
    """
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"`_meta` has no {' and no '.join(missing)}")
    if not isinstance(meta[VERSION_KEY], str):
        raise RpcError(INVALID_PARAMS, f"`{VERSION_KEY}` is not text")
    if not isinstance(meta[CAPABILITIES_KEY], dict):
        raise RpcError(INVALID_PARAMS, f"`{CAPABILITIES_KEY}` is not an object")


def unsupported_revision_fault(requested: str) -> RpcError:
    """Build the error for an unsupported protocol revision."""
    data = {"supported": [*STATELESS_REVISIONS, *reversed(tuple(HANDSHAKE_REVISIONS))], "requested": requested}
    return RpcError(UNSUPPORTED_REVISION, "Unsupported protocol version", data)


def require_headers(request: RpcRequest, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Check that the headers match the body: intermediaries go by the headers.

    Raises:
        RpcError: they differ, or one is missing or repeated.
    """
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER):
            if name in found:
                raise RpcError(HEADER_MISMATCH, f"the header {name.decode()} stands twice")
            found[name] = value
    version = read_meta(request.params).get(VERSION_KEY)
    _require_header(found, _VERSION_HEADER, version)
    _require_header(found, _METHOD_HEADER, request.method)
    field = _NAME_PARAMS.get(request.method)
    name_value: Any = request.params.get(field) if field is not None else None
    if name_value is not None:
        _require_header(found, _NAME_HEADER, name_value)


def _require_header(headers: Mapping[bytes, bytes], name: bytes, expected: Any) -> None:
    value = headers.get(name)
    if value is None:
        raise RpcError(HEADER_MISMATCH, f"the header {name.decode()} is missing")
    text = value.decode("latin-1").strip(" \t")
    decoded = _decode_header(text) if name == _NAME_HEADER else text
    if decoded is None or decoded != expected:
        raise RpcError(HEADER_MISMATCH, f"the header {name.decode()} says something else than the body")


def _decode_header(value: str) -> str | None:
    """Decode a header value that may be in base64; None if it is malformed."""
    encoded = _BASE64_HEADER.fullmatch(value)
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
