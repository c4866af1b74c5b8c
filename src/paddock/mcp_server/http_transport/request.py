"""What came over HTTP: who sent it, its body within bounds, and which kinds of answers it takes."""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias, cast

from starlette.types import Receive, Scope

from paddock.core.call import CallContext
from paddock.core.errors import CallerError, PaddockError
from paddock.mcp_server.exchange import RequestOwner, request_owner
from paddock.mcp_server.http_transport.reply import JSON_MEDIA_TYPE, SSE_MEDIA_TYPE, RevalidateCaller
from paddock.rpc.errors import INVALID_REQUEST, RpcError
from paddock.rpc.framing import MAX_STRUCTURE_TOKENS, STRUCTURE_CHECKED_FROM_BYTES
from paddock.rpc.message import MAX_FRAME_BYTES, StructureCounter

MCP_PATH: Final = "/mcp"

HeaderMap: TypeAlias = dict[bytes, bytes]


class RequestAuthenticator(Protocol):
    """Says who makes a request."""

    async def context_for(self, scope: Scope) -> CallContext:
        """In whose name it acts, as whoever mounts this has proven it.

        Raises:
            PaddockError: what it says of that is not good.
        """
        ...

    async def reauthenticate(self, scope: Scope) -> CallContext:
        """The same, for one that goes on for long: much may be otherwise by now.

        Raises:
            PaddockError: nobody is proven to be anybody any more, or nobody can tell.
        """
        ...


def revalidate_owner(callers: RequestAuthenticator, scope: Scope, owner: RequestOwner) -> RevalidateCaller:
    """Whether whoever began a request is still proven to make it."""

    async def still() -> bool:
        try:
            return request_owner(await callers.reauthenticate(scope)) == owner
        except PaddockError:
            return False

    return still


class HttpRejection(Exception):
    """A request that is no exchange of messages: an HTTP status, and why."""

    def __init__(self, status: int, reason: str, code: int = INVALID_REQUEST) -> None:
        super().__init__(reason)
        self.status = status
        self.fault = RpcError(code, reason)

    @classmethod
    def from_fault(cls, status: int, fault: RpcError) -> HttpRejection:
        """The same for a fault that says more."""
        refused = cls(status, fault.message)
        refused.fault = fault
        return refused


def accepted_media_types(headers: HeaderMap) -> tuple[bool, bool]:
    """Whether a client takes JSON, and whether it takes streams.

    Raises:
        Refused: neither.
    """
    json, events = accepts_media_type(headers, JSON_MEDIA_TYPE), accepts_media_type(headers, SSE_MEDIA_TYPE)
    if not json and not events:
        raise HttpRejection(406, "accept application/json and text/event-stream")
    return json, events


def accepts_media_type(headers: HeaderMap, kind: bytes) -> bool:
    """Whether a client takes this kind of answer; one that does not say takes any."""
    accept = headers.get(b"accept")
    if accept is None or kind in accept:
        return True
    return b"*/*" in accept or kind.partition(b"/")[0] + b"/*" in accept


async def read_bounded_body(receive: Receive, headers: HeaderMap) -> bytes:
    """The whole body, bounded while it arrives.

    Raises:
        Refused: it is larger or denser than anything that we take, or ends too early.
    """
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > MAX_FRAME_BYTES:
        raise HttpRejection(413, f"a body may have {MAX_FRAME_BYTES:,} bytes")
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        grown = bytearray(body)  # a body in a million pieces is not copied for each of them
        while message.get("more_body"):
            message = await receive()
            grown += cast("bytes", message.get("body", b""))
            if len(grown) > MAX_FRAME_BYTES:
                raise HttpRejection(413, f"a body may have {MAX_FRAME_BYTES:,} bytes")
        body = bytes(grown)
    if message["type"] == "http.disconnect":
        raise CallerError("the connection ended inside the body", code="http.body_cut")
    if len(body) > STRUCTURE_CHECKED_FROM_BYTES and StructureCounter().count(body) > MAX_STRUCTURE_TOKENS:
        raise HttpRejection(413, f"the body has more than {MAX_STRUCTURE_TOKENS:,} brackets, commas and colons")
    return body
