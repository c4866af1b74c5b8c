"""Reads submitted HTML forms, with limits: texts by name, and files."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from paddock.console.forms.parse import FormFile
from paddock.core.errors import CallerError
from paddock.core.printable import printable
from paddock.rpc.message import MAX_FRAME_BYTES
from paddock.web.request_headers import request_headers
from paddock.web.routing.body import body_chunks, read_body
from paddock.web.routing.json_parser import MAX_JSON_BYTES

_URLENCODED: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
MAX_FIELDS: Final = 5_000
MAX_FILES: Final = 20
_INVALID_CHARS: Final = re.compile("[\0\ud800-\udfff]")  # cannot be typed, nor stored in a database
MAX_FORM_FILES_BYTES: Final = MAX_FRAME_BYTES  # files go to a plugin, which accepts no larger frame


class SubmittedForm(NamedTuple):
    """A submitted form."""

    texts: dict[str, list[str]]
    files: dict[str, FormFile]

    def last_text(self, name: str) -> str:
        """Return a text; empty if there is none."""
        return self.texts.get(name, [""])[-1]


async def read_form(request: Request, max_bytes: int = MAX_JSON_BYTES) -> SubmittedForm:
    """Read the form in a request.

    Args:
        request: The request.
        max_bytes: Size limit of a form with files.

    Raises:
        BodyTooLarge: the form exceeds its limit.
        CallerError: it is not a form, or has too many fields.
    """
    content_type = request_headers(request.scope).text(b"content-type") or ""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == _MULTIPART:
        return await _read_multipart(request, max_bytes)
    if media_type and media_type != _URLENCODED:
        raise CallerError(f"this is {printable(media_type, 80)}, and no form", code="http.not_a_form")
    raw = await read_body(request)
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise CallerError("this form cannot be read", code="http.not_a_form") from None
    return SubmittedForm(_group_by_name(pairs), {})


async def _read_multipart(request: Request, max_bytes: int) -> SubmittedForm:
    parser = MultiPartParser(
        Headers(scope=request.scope),
        body_chunks(request, max_bytes),
        max_files=MAX_FILES,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_JSON_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise CallerError(
            f"this form cannot be read: {printable(error.message, 200)}", code="http.not_a_form"
        ) from None
    except UnicodeError:  # a form names its own charset; some Python codecs fail
        raise CallerError("this form cannot be read", code="http.not_a_form") from None
    try:
        files: dict[str, FormFile] = {}
        texts: list[tuple[str, str]] = []
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                media_type = value.content_type or "application/octet-stream"
                files[name] = FormFile(value.filename or "", media_type, await value.read())
            else:
                texts.append((name, value))
        return SubmittedForm(_group_by_name(texts), files)
    finally:
        await form.close()


def _group_by_name(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for name, value in pairs:
        if _INVALID_CHARS.search(name + value):
            raise CallerError(f"{printable(name, 80)} holds a character that is none", code="http.not_a_form")
        texts.setdefault(name, []).append(value)
    return texts
