"""The two ways a call to the other side fails: it answers with an error, or it is gone; and how errors are told.

Neither belongs to the tree of `core/errors.py`: whose fault it was is known only to whoever asked. A fault that leaves
us comes from that tree (`fault_of`) or is made here.
"""

from __future__ import annotations

from typing import Any, Final

from paddock.core.error_mapping import json_rpc_error
from paddock.core.errors import PaddockError

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_BUSY: Final = -32005

NO_EFFECT: Final = "no_effect"
"""The field of an error's data that is true where whoever answers says: it failed, and nothing happened."""


class RpcError(Exception):
    """An error answer, theirs or ours.

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
    """The other side is gone, or we have closed the connection; no answer will come."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def to_rpc_error(error: PaddockError) -> RpcError:
    """The answer that tells the other side of an error of ours."""
    shown = json_rpc_error(error)
    return RpcError(shown["code"], shown["message"], shown["data"])


def error_member(fault: RpcError) -> dict[str, Any]:
    """The `error` member of an answer."""
    shown: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        shown["data"] = fault.data
    return shown
