"""Meeting a server: which revision it speaks is found out without harming one that knows only the older ones.

The newest revision has no handshake, so a server is asked `server/discover` first. One that does not know it says so,
and gets `initialize`. One that says nothing may still be starting, or may ignore what it does not know: it gets
`initialize` too, while the first question still counts, so that a slow server is not taken for an old one.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from paddock.core.printable import printable
from paddock.plugins.runtimes.mcp.revisions import (
    HANDSHAKE,
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
from paddock.rpc.faults import METHOD_NOT_FOUND, RpcFault

PATIENCE = 30.0  # seconds for a server to say anything at all
PROBE = 3.0  # seconds in which one that is up says whether it knows `server/discover`

DISCOVER = Message("server/discover", stamped({}))
INITIALIZE = Message("initialize", initialize_params())
INITIALIZED = Message("notifications/initialized", {})


class NotUnderstood(Exception):
    """It answered, and not in a way that we can go on from."""

    def __init__(self, reason: str, fault: RpcFault | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = fault


async def meet_any(talk: Talk) -> Agreed:
    """Meet a server of which nothing is known.

    Raises:
        NotUnderstood, TimeoutError, PeerLost: there is no going on.
    """
    discovery, handshake = _asked(talk, DISCOVER), None
    try:
        await asyncio.wait({discovery}, timeout=PROBE)
        if not discovery.done():
            handshake = _asked(talk, INITIALIZE)
            await _until_settled(discovery, handshake)
            if _succeeded(handshake) and not _succeeded(discovery):
                return _shaken(talk, handshake.result())
        found = agreed_by_discovery(await _unless_refused(discovery))
        return found if found is not None else await meet_old(talk, handshake)
    finally:
        for asked in (discovery, handshake):
            if asked is not None:
                asked.cancel()  # harmless when it is done


async def _unless_refused(discovery: asyncio.Future[Any]) -> Any:
    """The answer; None where it is an error, or where there is none: it may ignore what it does not know."""
    try:
        return await discovery
    except RpcFault as fault:
        _unless_hopeless(fault)
    except TimeoutError:
        pass
    return None


async def meet_new(talk: Talk) -> Agreed:
    """Meet a server that spoke a stateless revision before."""
    try:
        found = agreed_by_discovery(await talk.ask(DISCOVER, PATIENCE))
    except RpcFault as fault:
        _unless_hopeless(fault)
        found = None
    return found if found is not None else await meet_old(talk)


async def meet_old(talk: Talk, asked: asyncio.Future[Any] | None = None) -> Agreed:
    """Meet a server by handshake; `asked` is one that is under way.

    A server that refuses because it has moved on is met the new way.

    Raises:
        NotUnderstood, TimeoutError, PeerLost: there is no going on.
    """
    try:
        return _shaken(talk, await (asked or talk.ask(INITIALIZE, PATIENCE)))
    except RpcFault as fault:
        if fault.code not in (UNSUPPORTED_REVISION, METHOD_NOT_FOUND):
            raise NotUnderstood(f"it refused the handshake: {fault_words(fault)}", fault) from None
        refused = fault
    try:
        found = agreed_by_discovery(await talk.ask(DISCOVER, PATIENCE))
    except RpcFault:
        found = None
    if found is None:
        raise NotUnderstood(f"it refused the handshake: {fault_words(refused)}", refused)
    return found


async def _until_settled(discovery: asyncio.Future[Any], handshake: asyncio.Future[Any]) -> None:
    """Wait until one of the two was answered well, or neither will be."""
    waiting = {discovery, handshake}
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if any(_succeeded(one) for one in done):
            return


def _succeeded(asked: asyncio.Future[Any]) -> bool:
    return asked.done() and not asked.cancelled() and asked.exception() is None


def _asked(talk: Talk, message: Message) -> asyncio.Task[Any]:
    asked = asyncio.ensure_future(talk.ask(message, PATIENCE))
    asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # of two, one may never be looked at
    return asked


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
    if named and not set(named) & set(HANDSHAKE):
        spoken = printable(", ".join(named), 200)
        raise NotUnderstood(f"it speaks only revisions of the protocol that we do not: {spoken}", fault)
