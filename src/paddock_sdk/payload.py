"""A payload read as a type of Python: for handlers that get it as plain JSON."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from paddock_sdk.faults import InvalidParams

T = TypeVar("T")


def read_payload(kind: type[T], payload: Any) -> T:
    """The payload as a dataclass, a TypedDict or any other type that typed handlers may have.

    Raises:
        InvalidParams: it does not fit; carries every mistake with its path. Left uncaught in a Kernel tool or operator,
            the call is answered with VALIDATION_ERROR.
    """
    from paddock_sdk.schema_from_types import build_schema  # late: only who uses it pays for it

    mistakes: list[dict[str, str]] = []
    found = build_schema(kind).read(payload, "", mistakes)
    if mistakes:
        told = "; ".join(f"{one['path'] or 'it'} {one['message']}" for one in mistakes[:5])
        raise InvalidParams(told, {"code": "VALIDATION_ERROR", "errors": mistakes})
    return cast("T", found)
