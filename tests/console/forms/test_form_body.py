"""What a form may hold, and what is no form."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.types import Message

from paddock.console.forms.request_form import MAX_FORM_FILES_BYTES, read_form
from paddock.core.errors import CallerError
from paddock.web.routing.body import BodyTooLarge
from paddock.web.routing.json_parser import MAX_JSON_BYTES

EDGE = "paddock-edge"


def request(kind: str, body: bytes, at_once: int = 64 * 1024) -> Request:
    left = [body[start : start + at_once] for start in range(0, len(body), at_once)]

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    headers = [(b"content-type", kind.encode())]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers, "state": {}}, receive)


def in_parts(name: str, value: bytes, charset: str) -> Request:
    head = f'--{EDGE}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
    kind = f"multipart/form-data; boundary={EDGE}; charset={charset}"
    return request(kind, head + value + f"\r\n--{EDGE}--\r\n".encode())


def with_file(size: int) -> Request:
    head = f'--{EDGE}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'.encode()
    return request(f"multipart/form-data; boundary={EDGE}", head + b"x" * size + f"\r\n--{EDGE}--\r\n".encode())


async def test_a_form_has_no_more_in_its_files_than_its_page_can_do_something_with() -> None:
    size = 2 * MAX_JSON_BYTES

    assert len((await read_form(with_file(size), MAX_FORM_FILES_BYTES)).files["file"].content) == size
    for sent, most in ((with_file(size), MAX_JSON_BYTES), (with_file(MAX_FORM_FILES_BYTES), MAX_FORM_FILES_BYTES)):
        with pytest.raises(BodyTooLarge):
            await read_form(sent, most)


async def test_a_form_is_read_in_the_charset_that_it_names() -> None:
    assert (await read_form(in_parts("name", "Zoë".encode("latin-1"), "latin-1"))).last_text("name") == "Zoë"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(in_parts("name", b"+2AA-", "utf-7"), id="half a character"),
        pytest.param(in_parts("+2AA-", b"value", "utf-7"), id="half a character in a name"),
        pytest.param(in_parts("name", b"value", "undefined"), id="a charset that reads nothing"),
        pytest.param(request("application/x-www-form-urlencoded", b"name=%00"), id="a NUL"),
        pytest.param(request("application/x-www-form-urlencoded", b"\xff=1"), id="bytes that are no text"),
    ],
)
async def test_what_is_no_text_is_no_form(sent: Request) -> None:
    with pytest.raises(CallerError) as refused:
        await read_form(sent)

    assert refused.value.error_code == "http.not_a_form"
