"""Request bodies: bounded while they arrive, and a JSON object or a list of everything that is wrong with them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request

from paddock.core.errors import CallerError
from paddock.core.printable import printable
from paddock.web.request_headers import request_headers
from paddock.web.routing.json_parser import MAX_JSON_BYTES, parse_json_object

JSON = "application/json"
_JSON = JSON.encode()


class BodyTooLarge(CallerError):
    """More than anybody may send at once."""

    code = "http.body_too_large"


class UnsupportedMediaType(CallerError):
    """A body of another kind than we read."""

    code = "http.not_json"


async def read_json_object(request: Request) -> dict[str, Any]:
    """The body as an object; an empty body is an empty object.

    Raises:
        BodyTooLarge: it has more than a mebibyte; the rest of it is not read.
        NotJson: it says that it is something else.
        Invalid: it is not JSON, not an object, or more than a plugin could be sent.
    """
    raw = await read_body(request)
    if not raw:
        return {}
    media = request_headers(request.scope).get(b"content-type", _JSON)
    if media != _JSON:
        _require_json(media.decode("latin-1"))
    return parse_json_object(raw)


def _require_json(media: str) -> None:
    """Take what says that it is JSON, or says nothing. A form is what a page of somebody else could make a browser send
    without asking."""
    kind = media.partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise UnsupportedMediaType(f"the body is {printable(kind, 80) or 'of no kind'}", hint=f"send it as {JSON}")


async def read_body(request: Request, most: int = MAX_JSON_BYTES) -> bytes:
    """A whole body.

    Raises:
        BodyTooLarge: it has more bytes than that; the rest of it is not read.
        CallerError: the connection ended inside it.
    """
    declared = request_headers(request.scope).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > most:
        raise _body_too_large_error(most)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise CallerError("the connection ended inside the body", code="http.body_cut")
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _body_too_large_error(most)
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def body_chunks(request: Request, most: int, refusal: BodyTooLarge | None = None) -> AsyncGenerator[bytes, None]:
    """A body as it comes, for what must not be in memory as a whole.

    Raises:
        BodyTooLarge: it has more bytes than that; in the words of `refusal`, where there is one.
        CallerError: the connection ended inside it.
    """
    declared = request_headers(request.scope).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > most:
        raise refusal or _body_too_large_error(most)
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise CallerError("the connection ended inside the body", code="http.body_cut")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise refusal or _body_too_large_error(most)
        yield chunk
        more = message.get("more_body", False)


def _body_too_large_error(most: int) -> BodyTooLarge:
    return BodyTooLarge(f"a body may have {most:,} bytes", hint="hand big data over as a file or in parts")
