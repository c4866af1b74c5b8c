"""Sessions come to an end by themselves when nobody uses them."""

from __future__ import annotations

from typing import Any, cast

from paddock.core.call import CallContext, Principal
from paddock.core.ids import PrincipalId, RequestId, Tenant
from paddock.mcp_server.http_transport.sessions import (
    MAX_SESSIONS,
    MAX_SESSIONS_PER_OWNER,
    SESSION_IDLE_TIMEOUT_S,
    McpHttpSessions,
)


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def of(name: str, tenant: str = "default") -> CallContext:
    return CallContext(Principal(PrincipalId(f"user:{name}")), RequestId("req"), tenant=Tenant(tenant))


async def never() -> CallContext:
    raise AssertionError("nobody is told anything here")


def test_a_session_that_nobody_uses_for_half_an_hour_is_over() -> None:
    time, opened = Time(), list[Tenant]()
    sessions = McpHttpSessions(cast("Any", None), cast("Any", time), opened.append)
    used, left = sessions.open(of("ann"), never), sessions.open(of("ann"), never)
    time.seconds = SESSION_IDLE_TIMEOUT_S - 1
    assert sessions.find(used.id, of("ann"), never) is used
    time.seconds = SESSION_IDLE_TIMEOUT_S + 1
    assert sessions.find(left.id, of("ann"), never) is None
    assert sessions.find(used.id, of("ann"), never) is used
    assert sessions.all() == (used,)

    time.seconds = 3 * SESSION_IDLE_TIMEOUT_S
    sessions.open(of("bob"), never)
    assert used not in sessions.all(), "a new one sweeps out the old ones"
    assert left.notification_stream.ended and used.notification_stream.ended


def test_a_session_is_its_owners_and_its_id_is_chance() -> None:
    sessions = McpHttpSessions(cast("Any", None), cast("Any", Time()), lambda _: None)
    mine = sessions.open(of("ann"), never)
    assert sessions.find(mine.id, of("bob"), never) is None
    assert sessions.find(mine.id[:-1], of("ann"), never) is None
    assert len(mine.id) >= 43 and mine.id.isascii() and mine.id.isprintable()


def test_a_tenant_that_has_taken_all_the_room_makes_some_and_keeps_nobody_out() -> None:
    time = Time()
    sessions = McpHttpSessions(cast("Any", None), cast("Any", time), lambda _: None)
    theirs = sessions.open(of("zoe", "acme"), never)
    for number in range(MAX_SESSIONS - 1):
        time.seconds = 1 + number / MAX_SESSIONS
        sessions.open(of(f"many{number // MAX_SESSIONS_PER_OWNER}"), never)
    assert len(sessions.all()) == MAX_SESSIONS

    time.seconds = 3
    assert sessions.open(of("yan", "acme"), never) in sessions.all()
    assert theirs in sessions.all() and len(sessions.all()) == MAX_SESSIONS
