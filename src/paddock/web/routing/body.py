"""Request bodies: size limits while they arrive, and parsing of JSON objects."""

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
    """The body exceeds the size limit."""

    code = "http.body_too_large"


class UnsupportedMediaType(CallerError):
    """The body has a media type other than JSON."""

    code = "http.not_json"


async def read_json_object(request: Request) -> dict[str, Any]:
    """Read the body as a JSON object; an empty body is an empty object.

    Raises:
        BodyTooLarge: it exceeds one mebibyte; the rest is not read.
        UnsupportedMediaType: its content type is not JSON.
        Invalid: it is not JSON, not an object, or exceeds what a plugin can be sent.
    """
    raw = await read_body(request)
    if not raw:
        return {}
    content_type = request_headers(request.scope).get(b"content-type", _JSON)
    if content_type != _JSON:
        _require_json(content_type.decode("latin-1"))
    return parse_json_object(raw)


def _require_json(content_type: str) -> None:
    """Accept JSON content types only.

    A form is the kind of body that a foreign page can make a browser send without a preflight.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != JSON and not media_type.endswith("+json"):
        raise UnsupportedMediaType(
            f"the body is {printable(media_type, 80) or 'of no kind'}", hint=f"send it as {JSON}"
        )


async def read_body(request: Request, max_bytes: int = MAX_JSON_BYTES) -> bytes:
    """Read the whole body.

    Raises:
        BodyTooLarge: it exceeds `max_bytes`; the rest is not read.
        CallerError: the connection ended inside it.
    """
    declared = request_headers(request.scope).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _body_too_large_error(max_bytes)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise CallerError("the connection ended inside the body", code="http.body_cut")
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _body_too_large_error(max_bytes)
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def body_chunks(
    request: Request, max_bytes: int, too_large_error: BodyTooLarge | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the body in chunks, for bodies that must not be in memory as a whole.

    Raises:
        BodyTooLarge: it exceeds `max_bytes`; `too_large_error` is raised instead if given.
        CallerError: the connection ended inside it.
    """
    declared = request_headers(request.scope).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > max_bytes:
        raise too_large_error or _body_too_large_error(max_bytes)
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise CallerError("the connection ended inside the body", code="http.body_cut")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise too_large_error or _body_too_large_error(max_bytes)
        yield chunk
        more = message.get("more_body", False)


def _body_too_large_error(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"a body may have {max_bytes:,} bytes", hint="hand big data over as a file or in parts")
