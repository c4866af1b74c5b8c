"""Those who come with a key whose call waits for a person: they wait for the same answer, and get what comes of it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, TOOLS, Office, made_by, outcome, waiting_count
from tests.gate.test_waiting_calls import CLEO, DAN, TWO_SAY_YES

from fixtures.daemons import eventually
from paddock import Config, open_host
from paddock.approvals.service import Approvals
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.calls import resume
from paddock.gate.calls.handle import CallHandle
from paddock.host.host import Host
from paddock.host.wiring.gate import build_approvals


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def waiting(host: Host) -> CallHandle:
    """A call of Ann's under one key that waits for a person, whoever asked them."""
    live = host.calls.registry.start("mail", "send", {"to": "bob"}, made_by(ANN, idempotency_key="k1"))
    async for event in live.events():
        assert event.kind == "approval"
        break
    return live


async def three(host: Host) -> tuple[CallHandle, CallHandle, str]:
    """The first and the third of three that wait, and what they wait for."""
    first, _, third = await waiting(host), await waiting(host), await waiting(host)
    assert first.approval_id is not None
    assert first.approval_id == third.approval_id
    return first, third, first.approval_id


def elsewhere(host: Host) -> Approvals:
    """The desk of another process on the same store: this host hears nothing of what is said there."""
    own = host._gate.starter.approvals  # pyright: ignore[reportPrivateUsage]
    return build_approvals(own._database, host._clock, host._random)  # pyright: ignore[reportPrivateUsage]


async def test_all_who_wait_with_one_key_get_what_came_of_the_yes(office: Office) -> None:
    async with office.open() as host:
        first, third, approval = await three(host)
        await host.approvals.approve(approval, ANN)
        made, got = await outcome(host, first.id), await outcome(host, third.id)

        assert (got["status"], got["result"]) == ("succeeded", {"done": "bob"})
        assert (made["result"], got["replay_of"]) == (got["result"], first.id)
        assert "approval" not in got
        assert await waiting_count(host) == 0
    assert office.done == ["bob"]


async def test_all_who_wait_with_one_key_get_the_no(office: Office) -> None:
    async with office.open() as host:
        first, third, approval = await three(host)
        await host.approvals.deny(approval, ANN)
        ends = [(await outcome(host, live.id))["error"]["code"] for live in (first, third)]

        assert ends == ["approval.denied", "approval.denied"]
        assert await waiting_count(host) == 0
    assert office.done == []


@pytest.mark.parametrize("answer", ["deny", "withdraw"])
async def test_so_they_do_where_it_was_said_to_another_host(office: Office, answer: str) -> None:
    async with office.open() as host:
        first, third, approval = await three(host)
        desk = elsewhere(host)
        if answer == "deny":
            await desk.deny("default", approval, ANN)
        else:
            await desk.withdraw("default", first.id, "it was cancelled")
        ended: dict[str, Any] = await outcome(host, third.id)

        assert ended["error"]["code"] == ("approval.denied" if answer == "deny" else "call.cancelled")
    assert office.done == []


async def test_a_call_that_another_host_makes_with_the_yes_gets_what_came_of_it_there(office: Office) -> None:
    async with office.open() as host:
        first = await waiting(host)
        assert first.approval_id is not None
        async with open_host(Config(home=office.home, environ={}, role="command")) as other:
            manifest = {"paddock": 1, "name": "mail", "version": "1.0.0", "description": "Mail", "tools": TOOLS}
            await other.embed(manifest, office.functions)
            await other.approvals.approve(first.approval_id, ANN)
            ended = await outcome(host, first.id)

        assert (ended["status"], ended["result"]) == ("succeeded", {"done": "bob"})
        assert await waiting_count(host) == 0
    assert office.done == ["bob"]


async def test_a_yes_that_its_host_does_not_use_is_used_where_the_call_waits(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "CHECK_INTERVAL_S", 0.05)
    async with office.open() as host:
        first, third, approval = await three(host)
        await elsewhere(host).approve("default", approval, ANN)
        ends = [await outcome(host, live.id) for live in (first, third)]

        assert [ended.get("result") for ended in ends] == [{"done": "bob"}] * 2
    assert office.done == ["bob"]


async def test_where_two_hosts_go_on_with_one_yes_both_get_what_came_of_the_quicker(office: Office) -> None:
    begun, go = threading.Event(), threading.Event()

    def send(to: str) -> Any:
        begun.set()
        go.wait(30)
        return office.do(to)

    office.functions["send"] = send
    async with office.open() as host:
        first = await waiting(host)
        assert first.approval_id is not None
        approved = await elsewhere(host).approve("default", first.approval_id, ANN)
        async with open_host(Config(home=office.home, environ={}, role="command")) as other:
            manifest = {"paddock": 1, "name": "mail", "version": "1.0.0", "description": "Mail", "tools": TOOLS}
            await other.embed(manifest, office.functions)
            await other.approvals.resume_approved_calls("mail")
            assert await asyncio.to_thread(begun.wait, 30)
            late = await host.approvals._resumer.on_answered(approved)  # pyright: ignore[reportPrivateUsage]
            assert late is first
            await asyncio.to_thread(eventually, lambda: first.status == "in_progress", "it follows the other")
            go.set()
            ends = [await outcome(one, first.id) for one in (host, other)]

        assert [ended.get("result") for ended in ends] == [{"done": "bob"}] * 2
    assert office.done == ["bob"]


async def test_a_yes_that_comes_while_the_host_goes_down_is_used_by_the_next(office: Office) -> None:
    async with office.open() as host:
        first, third, approval = await three(host)
        target = host._gate.catalogue(DEFAULT_TENANT).find("mail.send")  # pyright: ignore[reportPrivateUsage]
        approved = await elsewhere(host).approve("default", approval, ANN)
        await host.calls.registry.drain(0)
        host.calls.registry.resume_approved(first, first.context, target, approved.payload, approved.id)
        host.calls.registry.resume_joined(third, third.context)

        assert (first.status, third.status, host.calls.registry.running_count) == (
            "pending_approval",
            "pending_approval",
            0,
        )
    assert office.done == []
    async with office.open() as host:
        assert (await outcome(host, first.id))["result"] == {"done": "bob"}
    assert office.done == ["bob"]


async def test_an_edited_request_is_what_all_of_them_wait_for(office: Office) -> None:
    office.rule(TWO_SAY_YES)
    async with office.open() as host:
        first, third, approval = await three(host)
        edited = await host.approvals.approve(approval, CLEO, payload={"to": "eve"})
        assert third.to_json().get("approval", {}).get("approval") == edited["id"] != approval

        await host.approvals.approve(edited["id"], DAN)
        assert (await outcome(host, third.id))["result"] == (await outcome(host, first.id))["result"] == {"done": "eve"}
    assert office.done == ["eve"]


async def test_whoever_cancels_theirs_leaves_the_first_one_waiting(office: Office) -> None:
    async with office.open() as host:
        first, third, approval = await three(host)
        await host.approvals.cancel(third)
        assert ((await outcome(host, third.id))["status"], first.status) == ("cancelled", "pending_approval")

        await host.approvals.approve(approval, ANN)
        assert (await outcome(host, first.id))["result"] == {"done": "bob"}
