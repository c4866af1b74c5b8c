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
from paddock.plugins.runtimes.mcp.revisions import (
    HANDSHAKE,
    STATELESS,
    UNSUPPORTED_REVISION,
    Agreed,
    agreed_by_discovery,
    agreed_by_handshake,
    initialize_params,
    named_revisions,
    stamped,
)
from paddock.plugins.supervision.answers import fault_words
from paddock.plugins.supervision.wire import Message, Talk
from paddock.rpc.faults import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PeerLost, RpcFault

PATIENCE = 30.0  # seconds for a server to say anything at all
PROBE = 3.0  # seconds in which one that is up says whether it knows `server/discover`
# How one that knows no handshake may refuse it. Whatever else is said is about something else, a missing key perhaps.
_MOVED_ON = frozenset({UNSUPPORTED_REVISION, METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS})

DISCOVER = Message("server/discover", stamped({}))
INITIALIZE = Message("initialize", initialize_params())
INITIALIZED = Message("notifications/initialized", {})


class NotUnderstood(Exception):
    """It answered, and not in a way that we can go on from."""

    def __init__(self, reason: str, fault: RpcFault | None = None, *, moved_on: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = fault
        # Whether it may have done with handshakes.
        self.moved_on = moved_on or (fault is not None and fault.code in _MOVED_ON)


async def meet_by_handshake(talk: Talk) -> Agreed:
    """Meet a server at the other end of a pipe.

    Raises:
        NotUnderstood, TimeoutError, PeerLost: there is no going on.
    """
    try:
        return await _shake(talk)
    except NotUnderstood as refused:
        if not refused.moved_on:
            raise
        try:
            found = agreed_by_discovery(await talk.ask(DISCOVER, PATIENCE))
        except (RpcFault, TimeoutError, PeerLost):
            found = None  # what it said to the handshake is what people can do something about
        if found is None:
            raise
        return found


async def meet_by_discovery(talk: Talk) -> Agreed:
    """Meet a server elsewhere, or one that has no handshake.

    Raises:
        NotUnderstood, TimeoutError, PeerLost: there is no going on.
    """
    try:
        found = agreed_by_discovery(await talk.ask(DISCOVER, PROBE))
    except RpcFault as fault:
        _unless_hopeless(fault)
        found = None
    except TimeoutError:
        # It may ignore what it does not know, or be slow to wake; one that has moved on says so, and is asked again.
        return await meet_by_handshake(talk)
    return found if found is not None else await _shake(talk)


async def _shake(talk: Talk) -> Agreed:
    try:
        answer = await talk.ask(INITIALIZE, PATIENCE)
    except RpcFault as fault:
        _unless_hopeless(fault)
        raise NotUnderstood(f"it refused the handshake: {fault_words(fault)}", fault) from None
    found = agreed_by_handshake(answer)
    if found is None:
        told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        spoken = printable(str(told.get("protocolVersion")), 80)
        moved_on = told.get("protocolVersion") in STATELESS
        raise NotUnderstood(
            f"it answers the handshake with a revision that we do not take: {spoken}", moved_on=moved_on
        )
    talk.tell(INITIALIZED)
    return found


def _unless_hopeless(fault: RpcFault) -> None:
    """A server that names the revisions it speaks, none of them known to us, need not be asked further."""
    named = named_revisions(fault.data) if fault.code == UNSUPPORTED_REVISION else ()
    if named and not set(named) & {*HANDSHAKE, *STATELESS}:
        spoken = printable(", ".join(named), 200)
        raise NotUnderstood(f"it speaks only revisions of the protocol that we do not: {spoken}", fault)
