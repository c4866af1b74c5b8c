"""A stream goes on for as long as its reader would be answered as they were when it began."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import cast

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from paddock.core.call import OPERATOR as THE_OPERATOR
from paddock.core.call import Principal
from paddock.core.errors import Denied
from paddock.core.ids import PrincipalId
from paddock.web import sse
from paddock.web.routing.route import EVENT_STREAM, MEMBER, OPERATOR, Access, revalidate_response
from paddock.web.security.authenticate import Caller


def signed_in(*roles: str) -> Caller:
    return Caller(Principal(PrincipalId("user:ann"), roles=frozenset(roles), interactive=True), None, "session")


BEGAN = signed_in(THE_OPERATOR, "member")


class Proven:
    """Proves whoever it is told to."""

    def __init__(self, now: Caller | Denied | None) -> None:
        self.now = now

    def rights_revision(self) -> int:
        return 0

    async def authenticate(self, scope: object) -> Caller | None:
        del scope
        if isinstance(self.now, Denied):
            raise self.now
        return self.now


async def told(who: Access, now: Caller | Denied | None, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What somebody who began as an operator still gets, with the proof that they have now."""
    monkeypatch.setattr(sse, "REVALIDATE_INTERVAL_S", 0.0)

    async def lines() -> AsyncGenerator[bytes, None]:
        yield b"one"
        yield b"two"

    state = {"caller": BEGAN, "proof": Proven(now)}
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": [], "state": state})
    held = revalidate_response(who, request, StreamingResponse(lines(), media_type=EVENT_STREAM))
    return [cast("bytes", line) async for line in cast("StreamingResponse", held).body_iterator]


@pytest.mark.parametrize("who", [MEMBER, OPERATOR])
async def test_a_stream_goes_on_for_whoever_has_what_they_had(who: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await told(who, signed_in("member", THE_OPERATOR), monkeypatch) == [b"one", b"two"]


@pytest.mark.parametrize("who", [MEMBER, OPERATOR])
@pytest.mark.parametrize(
    "now",
    [
        pytest.param(None, id="signed out"),
        pytest.param(Denied("no", code="auth.refused"), id="a key that was revoked"),
        pytest.param(signed_in("member"), id="no operator any more"),
    ],
)
async def test_a_stream_ends_with_the_right_to_what_it_tells(
    who: Access, now: Caller | Denied | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await told(who, now, monkeypatch) == []
