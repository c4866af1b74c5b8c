"""Negotiates the protocol revision with an MCP server, without harming servers that know only some revisions.

Revisions with a handshake settle once what the newest revision repeats with every request. On a pipe, which is a
session anyway, that is an advantage: the server has less to read and check for each call. Nearly every server knows
`initialize`, while many handle any other first message badly. So on a pipe the handshake comes first, and a server that
has dropped it says so and is sent `server/discover`. For a remote server, where a session is a burden, the order is
reversed. A server that exits over the first request gets the other one in its next run.
"""

from __future__ import annotations

from typing import Any, cast

from paddock.core.printable import printable
from paddock.rpc.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PeerLost, RpcError
from paddock.rpc.mcp.revisions import (
    HANDSHAKE_REVISIONS,
    STATELESS_REVISIONS,
    UNSUPPORTED_REVISION_CODE,
    NegotiatedServer,
    initialize_params,
    parse_discover_result,
    parse_initialize_result,
    revisions_offered,
    with_protocol_meta,
)
from paddock.runtime.errors import describe_error
from paddock.runtime.protocol_adapter import OutgoingMessage, RequestSender

DISCOVER_TIMEOUT_S = 3.0  # for a running server to say whether it knows `server/discover`
# Errors by which a server without a handshake may reject it. Any other error concerns something else, perhaps a missing
# key.
_NO_HANDSHAKE_CODES = frozenset({UNSUPPORTED_REVISION_CODE, METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS})

DISCOVER_REQUEST = OutgoingMessage("server/discover", with_protocol_meta({}))
INITIALIZE_REQUEST = OutgoingMessage("initialize", initialize_params())
INITIALIZED_NOTIFICATION = OutgoingMessage("notifications/initialized", {})


class NegotiationFailed(Exception):
    """The server answered the negotiation in a way that leaves no common revision."""

    def __init__(self, reason: str, rpc_error: RpcError | None = None, *, handshake_dropped: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = rpc_error
        # Whether the server may have dropped the handshake.
        self.handshake_dropped = handshake_dropped or (rpc_error is not None and rpc_error.code in _NO_HANDSHAKE_CODES)


async def negotiate_by_handshake(sender: RequestSender, timeout_s: float) -> NegotiatedServer:
    """Negotiate with a server on a pipe: `initialize` first. Each answer may take `timeout_s`.

    Raises:
        NegotiationFailed, TimeoutError, PeerLost: the negotiation failed.
    """
    try:
        return await _initialize(sender, timeout_s)
    except NegotiationFailed as failure:
        if not failure.handshake_dropped:
            raise
        try:
            server = parse_discover_result(await sender.request(DISCOVER_REQUEST, timeout_s))
        except (RpcError, TimeoutError, PeerLost):
            server = None  # the handshake's error is the one that people can act on
        if server is None:
            raise
        return server


async def negotiate_by_discovery(sender: RequestSender, timeout_s: float) -> NegotiatedServer:
    """Negotiate with a remote server, or one without a handshake: `server/discover` first.

    Raises:
        NegotiationFailed, TimeoutError, PeerLost: the negotiation failed.
    """
    try:
        answer = await sender.request(DISCOVER_REQUEST, min(DISCOVER_TIMEOUT_S, timeout_s))
        server = parse_discover_result(answer)
    except RpcError as rpc_error:
        _raise_if_no_common_revision(rpc_error)
        server = None
    except TimeoutError:
        # It may ignore unknown methods, or be slow to start. A server without a handshake says so, and is asked again.
        return await negotiate_by_handshake(sender, timeout_s)
    return server if server is not None else await _initialize(sender, timeout_s)


async def _initialize(sender: RequestSender, timeout_s: float) -> NegotiatedServer:
    try:
        answer = await sender.request(INITIALIZE_REQUEST, timeout_s)
    except RpcError as rpc_error:
        _raise_if_no_common_revision(rpc_error)
        raise NegotiationFailed(f"it refused the handshake: {describe_error(rpc_error)}", rpc_error) from None
    server = parse_initialize_result(answer)
    if server is None:
        response = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        revision = printable(str(response.get("protocolVersion")), 80)
        handshake_dropped = response.get("protocolVersion") in STATELESS_REVISIONS
        raise NegotiationFailed(
            f"it answers the handshake with a revision that we do not take: {revision}",
            handshake_dropped=handshake_dropped,
        )
    sender.notify(INITIALIZED_NOTIFICATION)
    return server


def _raise_if_no_common_revision(rpc_error: RpcError) -> None:
    """Raise if the server lists the revisions it speaks and none of them is known to us."""
    revisions = revisions_offered(rpc_error.data) if rpc_error.code == UNSUPPORTED_REVISION_CODE else ()
    if revisions and not set(revisions) & {*HANDSHAKE_REVISIONS, *STATELESS_REVISIONS}:
        revision_text = printable(", ".join(revisions), 200)
        raise NegotiationFailed(f"it speaks only revisions of the protocol that we do not: {revision_text}", rpc_error)
