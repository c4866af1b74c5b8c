"""Request bodies: bounded while they arrive, and a JSON object or a list of everything that is wrong with them."""

from __future__ import annotations

from typing import Any, cast

import orjson
from starlette.requests import ClientDisconnect, Request

from paddock.core.errors import CallerError, Invalid, Problem
from paddock.core.json_value import MAX_DEPTH, deeper_than

LARGEST = 1024 * 1024


class BodyTooLarge(CallerError):
    """More than anybody may send at once."""

    code = "http.body_too_large"


async def json_object(request: Request) -> dict[str, Any]:
    """The body as an object; an empty body is an empty object.

    Raises:
        BodyTooLarge: it has more than a mebibyte; the rest of it is not read.
        Invalid: it is not JSON, not an object, or nested too deep.
    """
    raw = await _read(request)
    if not raw:
        return {}
    try:
        value: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _invalid(Problem("", f"is not JSON: {error}", "send a JSON object", "not_json")) from None
    if not isinstance(value, dict):
        raise _invalid(Problem("", f"is {_kind(value)}, not an object", 'send {"name": value, …}', "wrong_type"))
    if deeper_than(cast("object", value)):
        raise _invalid(Problem("", f"is nested more than {MAX_DEPTH} levels deep", "make it flatter", "too_deep"))
    return cast("dict[str, Any]", value)


def only(body: dict[str, Any], **kinds: type) -> None:
    """Check the members of a body of ours: all of these kinds, and no others.

    Raises:
        Invalid: with every mistake.
    """
    problems = [
        Problem(name, f"is {_kind(body[name])}", f"give {_WORDS[kind]}", "wrong_type")
        for name, kind in kinds.items()
        if name in body and not isinstance(body[name], kind)
    ]
    problems += [
        Problem(name, "is not known here", f"known: {', '.join(kinds)}", "unknown_field")
        for name in body
        if name not in kinds
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


_WORDS: dict[type, str] = {dict: "an object", list: "a list", str: "text", bool: "true or false"}


def _kind(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "a number"
    return "null" if value is None else _WORDS[type(value)]


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"a body may have {LARGEST:,} bytes", hint="hand big data over as a file or in parts")


def _invalid(problem: Problem) -> Invalid:
    return Invalid("the body is not valid", [problem], code="invalid_request")
