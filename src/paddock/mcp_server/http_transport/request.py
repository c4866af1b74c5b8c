"""HTTP requests of the MCP transports: authentication, bounded bodies and accepted media types."""

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
    """Provides the caller of a request."""

    async def context_for(self, scope: Scope) -> CallContext:
        """Return the call context, as authenticated by the web application.

        Raises:
            PaddockError: the request's impersonation or tenant is not allowed.
        """
        ...

    async def reauthenticate(self, scope: Scope) -> CallContext:
        """Authenticate a long-running request again.

        Raises:
            PaddockError: the credential is no longer valid, or cannot be checked.
        """
        ...


def revalidate_owner(authenticator: RequestAuthenticator, scope: Scope, owner: RequestOwner) -> RevalidateCaller:
    """Return a check whether the caller of a request is still authenticated as its owner."""

    async def is_still_owner() -> bool:
        try:
            return request_owner(await authenticator.reauthenticate(scope)) == owner
        except PaddockError:
            return False

    return is_still_owner


class HttpRejection(Exception):
    """A request that is rejected with an HTTP status and a reason."""

    def __init__(self, status: int, reason: str, code: int = INVALID_REQUEST, *, fault: RpcError | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.fault = fault or RpcError(code, reason)

    @classmethod
    def from_fault(cls, status: int, fault: RpcError) -> HttpRejection:
        """Reject with an existing RPC error, which carries more than a reason."""
        return cls(status, fault.message, fault=fault)


def accepted_media_types(headers: HeaderMap) -> tuple[bool, bool]:
    """Return whether a client accepts JSON, and whether it accepts event streams.

    Raises:
        HttpRejection: neither.
    """
    json, events = accepts_media_type(headers, JSON_MEDIA_TYPE), accepts_media_type(headers, SSE_MEDIA_TYPE)
    if not json and not events:
        raise HttpRejection(406, "accept application/json and text/event-stream")
    return json, events


def accepts_media_type(headers: HeaderMap, media_type: bytes) -> bool:
    """Return whether a client accepts a media type; without an Accept header it accepts any."""
    accept = headers.get(b"accept")
    if accept is None or media_type in accept:
        return True
    return b"*/*" in accept or media_type.partition(b"/")[0] + b"/*" in accept


async def read_bounded_body(receive: Receive, headers: HeaderMap) -> bytes:
    """Read the whole body, with limits enforced while it arrives.

    Raises:
        HttpRejection: it is too large, too dense, or ends too early.
    """
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > MAX_FRAME_BYTES:
        raise HttpRejection(413, f"a body may have {MAX_FRAME_BYTES:,} bytes")
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        buffer = bytearray(body)  # avoids copying the body for each of many small chunks
        while message.get("more_body"):
            message = await receive()
            buffer += cast("bytes", message.get("body", b""))
            if len(buffer) > MAX_FRAME_BYTES:
                raise HttpRejection(413, f"a body may have {MAX_FRAME_BYTES:,} bytes")
        body = bytes(buffer)
    if message["type"] == "http.disconnect":
        raise CallerError("the connection ended inside the body", code="http.body_cut")
    if len(body) > STRUCTURE_CHECKED_FROM_BYTES and StructureCounter().count(body) > MAX_STRUCTURE_TOKENS:
        raise HttpRejection(413, f"the body has more than {MAX_STRUCTURE_TOKENS:,} brackets, commas and colons")
    return body
