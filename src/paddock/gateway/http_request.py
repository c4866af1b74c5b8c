"""What came over HTTP: who sent it, its body within bounds, and which kinds of answers it takes."""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias, cast

from starlette.types import Receive, Scope

from paddock.core.call import CallContext
from paddock.core.errors import CallerError, PaddockError
from paddock.gateway.http_reply import EVENTS, JSON, Still
from paddock.gateway.owners import Owner, owner_of
from paddock.rpc.faults import INVALID_REQUEST, RpcFault
from paddock.rpc.framing import COUNTED_FROM, MAX_STRUCTURE
from paddock.rpc.message import MAX_FRAME
from paddock.rpc.structure import StructureCounter

ROOT: Final = "/mcp"

Headers: TypeAlias = dict[bytes, bytes]


class Callers(Protocol):
    """Says who makes a request."""

    async def context_of(self, scope: Scope) -> CallContext:
        """In whose name it acts, as whoever mounts this has proven it.

        Raises:
            PaddockError: what it says of that is not good.
        """
        ...

    async def proven_again(self, scope: Scope) -> CallContext:
        """The same, for one that goes on for long: much may be otherwise by now.

        Raises:
            PaddockError: nobody is proven to be anybody any more, or nobody can tell.
        """
        ...


def while_theirs(callers: Callers, scope: Scope, owner: Owner) -> Still:
    """Whether whoever began a request is still proven to make it."""

    async def still() -> bool:
        try:
            return owner_of(await callers.proven_again(scope)) == owner
        except PaddockError:
            return False

    return still


class Refused(Exception):
    """A request that is no exchange of messages: an HTTP status, and why."""

    def __init__(self, status: int, reason: str, code: int = INVALID_REQUEST) -> None:
        super().__init__(reason)
        self.status = status
        self.fault = RpcFault(code, reason)

    @classmethod
    def by(cls, status: int, fault: RpcFault) -> Refused:
        """The same for a fault that says more."""
        refused = cls(status, fault.message)
        refused.fault = fault
        return refused


def accepted(headers: Headers) -> tuple[bool, bool]:
    """Whether a client takes JSON, and whether it takes streams.

    Raises:
        Refused: neither.
    """
    json, events = accepts(headers, JSON), accepts(headers, EVENTS)
    if not json and not events:
        raise Refused(406, "accept application/json and text/event-stream")
    return json, events


def accepts(headers: Headers, kind: bytes) -> bool:
    """Whether a client takes this kind of answer; one that does not say takes any."""
    accept = headers.get(b"accept")
    if accept is None or kind in accept:
        return True
    return b"*/*" in accept or kind.partition(b"/")[0] + b"/*" in accept


async def body_of(receive: Receive, headers: Headers) -> bytes:
    """The whole body, bounded while it arrives.

    Raises:
        Refused: it is larger or denser than anything that we take, or ends too early.
    """
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > MAX_FRAME:
        raise Refused(413, f"a body may have {MAX_FRAME:,} bytes")
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        grown = bytearray(body)  # a body in a million pieces is not copied for each of them
        while message.get("more_body"):
            message = await receive()
            grown += cast("bytes", message.get("body", b""))
            if len(grown) > MAX_FRAME:
                raise Refused(413, f"a body may have {MAX_FRAME:,} bytes")
        body = bytes(grown)
    if message["type"] == "http.disconnect":
        raise CallerError("the connection ended inside the body", code="http.body_cut")
    if len(body) > COUNTED_FROM and StructureCounter().count(body) > MAX_STRUCTURE:
        raise Refused(413, f"the body has more than {MAX_STRUCTURE:,} brackets, commas and colons")
    return body
