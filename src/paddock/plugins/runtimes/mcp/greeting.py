"""Meeting a server: which revision it speaks is found out without harming one that knows only some of them.

Revisions with a handshake settle once what the newest says again with every request. On a pipe, which is a session
anyway, that is worth having: the server has less to read and to check for each call. And nearly every server knows
`initialize`, while many take anything else at first badly. So on a pipe the handshake comes first, and one that has
moved on says so and is asked `server/discover`. Elsewhere, where a session is a burden, it is the other way round.
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
from paddock.rpc.faults import RpcFault

PATIENCE = 30.0  # seconds for a server to say anything at all
PROBE = 10.0  # seconds in which one that is up says whether it knows `server/discover`

DISCOVER = Message("server/discover", stamped({}))
INITIALIZE = Message("initialize", initialize_params())
INITIALIZED = Message("notifications/initialized", {})


class NotUnderstood(Exception):
    """It answered, and not in a way that we can go on from."""

    def __init__(self, reason: str, fault: RpcFault | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = fault


async def meet_by_handshake(talk: Talk) -> Agreed:
    """Meet a server at the other end of a pipe.

    Raises:
        NotUnderstood, TimeoutError, PeerLost: there is no going on.
    """
    try:
        return _shaken(talk, await talk.ask(INITIALIZE, PATIENCE))
    except RpcFault as fault:
        _unless_hopeless(fault)
        refused = fault
    try:
        found = agreed_by_discovery(await talk.ask(DISCOVER, PATIENCE))
    except RpcFault:
        found = None
    if found is None:
        raise NotUnderstood(f"it refused the handshake: {fault_words(refused)}", refused)
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
        found = None  # it may ignore what it does not know
    return found if found is not None else await meet_by_handshake(talk)


def _shaken(talk: Talk, answer: Any) -> Agreed:
    found = agreed_by_handshake(answer)
    if found is None:
        told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        spoken = printable(str(told.get("protocolVersion")), 80)
        raise NotUnderstood(f"it speaks a revision of the protocol that we do not: {spoken}")
    talk.tell(INITIALIZED)
    return found


def _unless_hopeless(fault: RpcFault) -> None:
    """A server that names the revisions it speaks, none of them known to us, need not be asked further."""
    named = named_revisions(fault.data) if fault.code == UNSUPPORTED_REVISION else ()
    if named and not set(named) & {*HANDSHAKE, *STATELESS}:
        spoken = printable(", ".join(named), 200)
        raise NotUnderstood(f"it speaks only revisions of the protocol that we do not: {spoken}", fault)
