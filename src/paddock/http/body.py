"""Request bodies: bounded while they arrive, and a JSON object or a list of everything that is wrong with them."""

from __future__ import annotations

from itertools import islice
from typing import Any

from starlette.requests import ClientDisconnect, Request

from paddock.core.errors import CallerError, Invalid, Problem
from paddock.core.printable import printable
from paddock.http.json_text import LARGEST, kind_of, read_object, words_for

MOST_MISTAKES = 100  # that are told of one body


class BodyTooLarge(CallerError):
    """More than anybody may send at once."""

    code = "http.body_too_large"


async def json_object(request: Request) -> dict[str, Any]:
    """The body as an object; an empty body is an empty object.

    Raises:
        BodyTooLarge: it has more than a mebibyte; the rest of it is not read.
        Invalid: it is not JSON, not an object, or more than a plugin could be sent.
    """
    raw = await _read(request)
    return read_object(raw) if raw else {}


def only(body: dict[str, Any], **kinds: type) -> None:
    """Check the members of a body of ours: all of these kinds, and no others.

    Raises:
        Invalid: with every mistake, or the first hundred.
    """
    problems = [
        Problem(name, f"is {kind_of(body[name])}", f"give {words_for(kind)}", "wrong_type")
        for name, kind in kinds.items()
        if name in body and not isinstance(body[name], kind)
    ]
    unknown = (name for name in body if name not in kinds)
    problems += [
        Problem(printable(name), "is not known here", f"known: {', '.join(kinds)}", "unknown_field")
        for name in islice(unknown, MOST_MISTAKES)
    ]
    if problems:
        raise Invalid("the body is not valid", problems, code="invalid_params")


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
