"""Calls that wait for a person cost rows: no task, no handle and no job, however many they are."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.gate.test_expiring import JOBS, rows
from tests.gate.test_governed_calls import ANN, Office, held, made_by, outcome, waiting_count
from tests.gate.test_waiting_calls import CLEO, DAN, TWO_SAY_YES

from paddock.approvals import removal
from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import NeedsApproval, StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.gate.calls import joined_calls, resume
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.waiting_calls import WaitingCalls
from paddock.host.calls.call_history import CallFilter
from paddock.host.host import Host
from paddock.host.wiring.gate import build_approvals
from paddock.store.database import Database, Engine, Transaction

T = TypeVar("T")

THE_NIGHT_SHIFT_SAYS_YES = """
@id("night") @text("The night shift says.") @approval("action") @approvers("group:night")
forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.note");
"""
ROOM = {"PADDOCK_LIMITS_WAITING_PER_PRINCIPAL": "1000"}


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def detached(host: Host, context: CallContext) -> str:
    """A call whose caller is told its id, and goes."""
    live = host.calls.registry.start("mail", "send", {"to": "bob"}, context)
    with suppress(NeedsApproval):
        await live.wait()
    return live.id


async def inline(host: Host) -> str:
    """A call whose caller is told that it waits, and goes."""
    try:
        await host.call("mail.send", {"to": "bob"}, context=made_by(ANN))
    except NeedsApproval as waits:
        return str(waits.details["call_id"])
    raise AssertionError("nobody is asked")


async def test_calls_whose_callers_have_gone_are_rows_and_nothing_else(office: Office) -> None:
    async with office.open(**ROOM) as host:
        await inline(host)
        tasks = len(asyncio.all_tasks())
        gc.disable()  # a handle goes with the last who refers to it
        try:
            made = [await make for _ in range(20) for make in (inline(host), detached(host, made_by(ANN)))]
            await asyncio.sleep(0)
            assert [one for one in gc.get_objects() if isinstance(one, CallHandle) and one.id in made] == []
        finally:
            gc.enable()

        assert await waiting_count(host) == 41
        assert host.calls.registry.list_current(DEFAULT_TENANT) == []
        assert len(asyncio.all_tasks()) < tasks + 5, "the host has some of its own, which come and go"
        assert rows(office, JOBS) == []

        for call in made[:2]:
            shown: Any = await host.calls.records.show(call, ANN)
            assert (shown["status"], shown["inputs"]) == ("pending_approval", {"to": "bob"})
            await host.approvals.approve(shown["approval"]["approval"], ANN)
            assert (await outcome(host, call))["result"] == {"done": "bob"}
    assert office.done == ["bob"] * 2


async def test_all_who_follow_a_call_that_waits_follow_one_and_see_each_event_by_one_number(office: Office) -> None:
    office.rule(TWO_SAY_YES)
    async with office.open() as host:
        waits = await held(host)
        edited = await host.approvals.approve(waits["approval"], CLEO, payload={"to": "eve"})
    async with office.open() as host:  # nobody followed it when it was edited
        followed = await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)
        (asks,) = followed.last_events(9)
        assert (asks.number, asks.data["approval"]) == (2, edited["id"])
        assert await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT) is followed
        await host.approvals.deny(edited["id"], DAN)
        async with asyncio.timeout(30):
            await followed.wait_ended()
        assert (followed.status, followed.summary().get("error_code")) == ("failed", "approval.denied")


async def test_repetitions_of_a_call_that_waits_are_bounded(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_calls, "MAX_JOINED_CALLS", 2)
    async with office.open() as host:
        context = made_by(ANN, idempotency_key="k1")
        first, *repeated = [await detached(host, context) for _ in range(4)]
        (waits,) = await host.approvals.list_requests(DEFAULT_TENANT)
        await host.approvals.approve(waits["id"], ANN)
        ends = [await outcome(host, call) for call in (first, *repeated)]

    assert [one["status"] for one in ends] == ["succeeded", "cancelled", "succeeded", "succeeded"]
    assert [one.get("replay_of") for one in ends] == [None, None, first, first]
    assert office.done == ["bob"]


class Away:
    """A database that cannot be reached now."""

    def __init__(self, inside: Database) -> None:
        self.engine: Engine = inside.engine
        self.write, self.aclose = inside.write, inside.aclose

    async def read(self, fn: Callable[[Transaction], T]) -> T:  # noqa: ARG002  # as `Database` calls it
        raise StoreUnavailable("the database is away", code="store.unavailable")


async def test_a_call_that_waits_is_not_said_to_be_gone_while_its_caller_cannot_be_looked_up(office: Office) -> None:
    async with office.open() as host:
        call = await detached(host, made_by(ANN))
        gate = host._gate  # pyright: ignore[reportPrivateUsage]
        database, clock = gate.starter.database, SystemClock()
        approvals = build_approvals(database, clock, SystemRandom())
        finds = WaitingCalls(gate, host.calls.registry, approvals, Away(database), clock)

        with pytest.raises(StoreUnavailable):
            await finds.find(call, DEFAULT_TENANT)
        assert (await host.calls.waiting.find(call, DEFAULT_TENANT)).id == call


async def test_an_approved_call_is_not_given_up_while_its_caller_cannot_be_looked_up(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "CHECK_INTERVAL_S", 0.01)
    async with office.open() as host:
        call = await detached(host, made_by(ANN))
        gate = host._gate  # pyright: ignore[reportPrivateUsage]
        database, clock = gate.starter.database, SystemClock()
        approvals = build_approvals(database, clock, SystemRandom())
        finds = WaitingCalls(gate, host.calls.registry, approvals, Away(database), clock)
        resumer = resume.PendingCallResumer(gate, host.calls.registry, finds, approvals)
        (waits,) = await host.approvals.list_requests(DEFAULT_TENANT)

        with pytest.raises(StoreUnavailable):
            await resumer.on_answered(await approvals.approve(DEFAULT_TENANT, waits["id"], ANN))
        assert (await outcome(host, call))["status"] == "succeeded"
    assert office.done == ["bob"]


async def test_repetitions_of_one_caller_do_not_end_those_of_another(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined_calls, "MAX_JOINED_CALLS", 2)
    async with office.open() as host:
        of_cleo = [await detached(host, made_by(CLEO, idempotency_key="k1")) for _ in range(2)]
        (waits,) = await host.approvals.list_requests(DEFAULT_TENANT)
        for _ in range(5):
            await detached(host, made_by(ANN, idempotency_key="k2"))

        await host.approvals.approve(waits["id"], ANN)
        ends = [await outcome(host, call) for call in of_cleo]

    assert [one["status"] for one in ends] == ["succeeded", "succeeded"]


async def test_a_call_made_with_a_persons_token_is_in_their_list_while_it_waits(office: Office) -> None:
    async with office.open() as host:
        eve = Principal(PrincipalId("user:eve"))
        token = Principal(PrincipalId("token:eve"), roles=frozenset({OPERATOR}), kind="key", owner=eve.id)
        call = await detached(host, made_by(token))

        (waits,) = (await host.calls.history.page(eve, CallFilter())).current
        assert (waits["call_id"], waits["outcome"]) == (call, "pending_approval")
        (recent,) = await host.calls.history.recent(eve, 9)
        assert recent.summary["call_id"] == call
        of_eve = await host.calls.history.page(ANN, CallFilter(person="user:eve"))
        assert [one["call_id"] for one in of_eve.current] == [call]


async def test_what_waits_for_a_group_ends_with_it_in_many_small_units(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "ENDED_PER_UNIT", 2)
    office.rule(THE_NIGHT_SHIFT_SAYS_YES)
    async with office.open() as host:
        await host.identity.groups.add(ANN, "night", "")
        made = [await held(host, "mail.note") for _ in range(5)]
        other = await held(host)
        await host.identity.groups.remove(ANN, "night")

        states = [(await host.approvals.find(DEFAULT_TENANT, one["approval"]))["state"] for one in (*made, other)]
        assert states == ["voided"] * 5 + ["pending"]
