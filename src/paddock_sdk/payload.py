"""Converts a JSON payload to a Python type, for handlers that receive plain JSON."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from paddock_sdk.faults import InvalidParams

T = TypeVar("T")


def read_payload(kind: type[T], payload: Any) -> T:
    """Return the payload as a dataclass, a TypedDict or any other type that typed handlers support.

    Raises:
        InvalidParams: it does not match; carries every mistake with its path. If uncaught in a Kernel tool or operator,
            the call is answered with VALIDATION_ERROR.
    """
    from paddock_sdk.schema_from_types import build_schema  # late: only plugins that use it pay for the import

    mistakes: list[dict[str, str]] = []
    value = build_schema(kind).read(payload, "", mistakes)
    if mistakes:
        message = "; ".join(f"{one['path'] or 'it'} {one['message']}" for one in mistakes[:5])
        raise InvalidParams(message, {"code": "VALIDATION_ERROR", "errors": mistakes})
    return cast("T", value)
