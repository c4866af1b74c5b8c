"""RPC errors: an error response from the other side, a lost peer, and how our own errors are sent.

Neither belongs to the tree of `core/errors.py`: only the caller knows whose fault it was. An error that we send
comes from that tree (`to_rpc_error`) or is made here.
"""

from __future__ import annotations

from typing import Any, Final

from paddock.core.error_formats import json_rpc_error
from paddock.core.errors import PaddockError

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_BUSY: Final = -32005
NO_ANSWER: Final = -32000

NO_EFFECT: Final = "no_effect"
"""The field of an error's data that is true where the other side says: it failed, and nothing happened."""


class RpcError(Exception):
    """An error response, theirs or ours.

    Args:
        code: The JSON-RPC number.
        message: One sentence.
        data: Anything that JSON can hold; None is left out on the wire.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def __repr__(self) -> str:
        return f"RpcFault({self.code}, {self.message!r})"


class PeerLost(Exception):
    """The other side is gone, or we have closed the connection; no response will come."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def to_rpc_error(error: PaddockError) -> RpcError:
    """Convert an error of ours for the other side."""
    mapped = json_rpc_error(error)
    return RpcError(mapped["code"], mapped["message"], mapped["data"])


def error_member(error: RpcError) -> dict[str, Any]:
    """The `error` member of a response."""
    member: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        member["data"] = error.data
    return member
