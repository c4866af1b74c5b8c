"""Meeting a server: which revision it speaks is found out without harming one that knows only some of them.

Revisions with a handshake settle once what the newest says again with every request. On a pipe, which is a session
anyway, that is worth having: the server has less to read and to check for each call. And nearly every server knows
`initialize`, while many take anything else at first badly. So on a pipe the handshake comes first, and one that has
moved on says so and is asked `server/discover`. Elsewhere, where a session is a burden, it is the other way round. One
that ends over the first question gets the other one in its next life.
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

HANDSHAKE_TIMEOUT_S = 30.0  # seconds for a server to say anything at all
DISCOVER_TIMEOUT_S = 3.0  # seconds in which one that is up says whether it knows `server/discover`
# How one that knows no handshake may refuse it. Whatever else is said is about something else, a missing key perhaps.
_NO_HANDSHAKE_CODES = frozenset({UNSUPPORTED_REVISION_CODE, METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS})

DISCOVER_REQUEST = OutgoingMessage("server/discover", with_protocol_meta({}))
INITIALIZE_REQUEST = OutgoingMessage("initialize", initialize_params())
INITIALIZED_NOTIFICATION = OutgoingMessage("notifications/initialized", {})


class NegotiationFailed(Exception):
    """It answered, and not in a way that we can go on from."""

    def __init__(self, reason: str, fault: RpcError | None = None, *, moved_on: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = fault
        # Whether it may have done with handshakes.
        self.moved_on = moved_on or (fault is not None and fault.code in _NO_HANDSHAKE_CODES)


async def negotiate_by_handshake(talk: RequestSender) -> NegotiatedServer:
    """Meet a server at the other end of a pipe.

    Raises:
        NotUnderstood, TimeoutError, PeerLost: there is no going on.
    """
    try:
        return await _initialize(talk)
    except NegotiationFailed as refused:
        if not refused.moved_on:
            raise
        try:
            found = parse_discover_result(await talk.request(DISCOVER_REQUEST, HANDSHAKE_TIMEOUT_S))
        except (RpcError, TimeoutError, PeerLost):
            found = None  # what it said to the handshake is what people can do something about
        if found is None:
            raise
        return found


async def negotiate_by_discovery(talk: RequestSender) -> NegotiatedServer:
    """Meet a server elsewhere, or one that has no handshake.

    Raises:
        NotUnderstood, TimeoutError, PeerLost: there is no going on.
    """
    try:
        found = parse_discover_result(await talk.request(DISCOVER_REQUEST, DISCOVER_TIMEOUT_S))
    except RpcError as fault:
        _raise_if_no_common_revision(fault)
        found = None
    except TimeoutError:
        # It may ignore what it does not know, or be slow to wake; one that has moved on says so, and is asked again.
        return await negotiate_by_handshake(talk)
    return found if found is not None else await _initialize(talk)


async def _initialize(talk: RequestSender) -> NegotiatedServer:
    try:
        answer = await talk.request(INITIALIZE_REQUEST, HANDSHAKE_TIMEOUT_S)
    except RpcError as fault:
        _raise_if_no_common_revision(fault)
        raise NegotiationFailed(f"it refused the handshake: {describe_error(fault)}", fault) from None
    found = parse_initialize_result(answer)
    if found is None:
        told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        spoken = printable(str(told.get("protocolVersion")), 80)
        moved_on = told.get("protocolVersion") in STATELESS_REVISIONS
        raise NegotiationFailed(
            f"it answers the handshake with a revision that we do not take: {spoken}", moved_on=moved_on
        )
    talk.notify(INITIALIZED_NOTIFICATION)
    return found


def _raise_if_no_common_revision(fault: RpcError) -> None:
    """A server that names the revisions it speaks, none of them known to us, need not be asked further."""
    named = revisions_offered(fault.data) if fault.code == UNSUPPORTED_REVISION_CODE else ()
    if named and not set(named) & {*HANDSHAKE_REVISIONS, *STATELESS_REVISIONS}:
        spoken = printable(", ".join(named), 200)
        raise NegotiationFailed(f"it speaks only revisions of the protocol that we do not: {spoken}", fault)
