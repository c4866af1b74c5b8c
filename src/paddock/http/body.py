"""Request bodies: bounded while they arrive, and a JSON object or a list of everything that is wrong with them."""

from __future__ import annotations

from typing import Any

from starlette.requests import ClientDisconnect, Request

from paddock.core.errors import CallerError
from paddock.core.printable import printable
from paddock.http.json_text import LARGEST, read_object

JSON = "application/json"


class BodyTooLarge(CallerError):
    """More than anybody may send at once."""

    code = "http.body_too_large"


class NotJson(CallerError):
    """A body of another kind than we read."""

    code = "http.not_json"


async def json_object(request: Request) -> dict[str, Any]:
    """The body as an object; an empty body is an empty object.

    Raises:
        BodyTooLarge: it has more than a mebibyte; the rest of it is not read.
        NotJson: it says that it is something else.
        Invalid: it is not JSON, not an object, or more than a plugin could be sent.
    """
    raw = await _read(request)
    if not raw:
        return {}
    _require_json(request.headers.get("content-type"))
    return read_object(raw)


def _require_json(media: str | None) -> None:
    """Take what says that it is JSON, or says nothing. A form is what a page of somebody else could make a browser send
    without asking."""
    kind = JSON if media is None else media.partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise NotJson(f"the body is {printable(kind, 80) or 'of no kind'}", hint=f"send it as {JSON}")


async def _read(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > LARGEST:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > LARGEST:
                raise _too_large()
            parts.append(part)
    except ClientDisconnect:
        raise CallerError("the connection ended inside the body", code="http.body_cut") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"a body may have {LARGEST:,} bytes", hint="hand big data over as a file or in parts")
