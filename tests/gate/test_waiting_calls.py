"""Calls that wait for a person come to exactly one end, whatever happens to their rules, callers, plugins and host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, held, made_by, outcome, waiting_count
from tests.gate.test_governed_calls import Office as OpenOffice

from paddock.approvals import open_requests
from paddock.approvals.store import REQUESTS_PAGE_ROWS
from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.error_formats import http_status
from paddock.core.errors import Busy, Conflict, NeedsApproval, NotFound
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.gate.calls import resume
from paddock.host.host import Host
from paddock.host.wiring.gate import build_approvals
from paddock.store.database import open_database

CLEO, DAN = (
    Principal(PrincipalId(f"local:{name}"), roles=frozenset({OPERATOR}), kind="local", interactive=True)
    for name in ("cleo", "dan")
)

NOTES_ARE_ASKED_ABOUT = (
    '@id("notes-are-asked-about") @text("Notes are asked about.") @approval("gate")\n'
    'forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.note");'
)

TWO_SAY_YES = (
    '@id("sending-needs-a-yes") @text("Two say yes.") @approval("gate") @quorum("2") @four_eyes("no")\n'
    'forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.send");'
)


class Office(OpenOffice):
    """One whose plugin can go."""

    async def remove(self, host: Host) -> None:
        host.plugins.embedded._reconciler.embedded.pop("mail")  # there is no way for a program to take one back
        await host.plugins.lifecycle.reconcile()


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


# --- a yes is used once, whatever the rules say by then -------------------------------------------------------------


async def test_a_yes_that_is_not_needed_any_more_is_used_all_the_same_and_the_call_made_once(office: Office) -> None:
    office.rule(NOTES_ARE_ASKED_ABOUT)
    async with office.open() as host:
        waits = await held(host, "mail.note")
        next((office.home / "policies").iterdir()).unlink()
        await host.policy.active.reload_if_changed()
        await host.approvals.approve(waits["approval"], ANN)

        assert (await outcome(host, waits["call_id"]))["status"] == "succeeded"
        assert (await host.approvals.find("default", waits["approval"]))["state"] == "consumed"
    for _ in range(2):
        async with office.open() as host:
            assert await waiting_count(host) == host.calls.registry.running_count == 0

    assert office.done == ["note"]
    (started,) = [call for call in office.calls() if call["type"] == "call.started"]
    assert (started["decision"], started["approval"]) == ("allow", waits["approval"])


async def test_a_yes_that_is_not_needed_any_more_is_still_to_one_exact_thing(office: Office) -> None:
    office.rule(NOTES_ARE_ASKED_ABOUT)
    async with office.open() as host:
        waits = await held(host, "mail.note")
    next((office.home / "policies").iterdir()).unlink()
    async with office.open(version="2.0.0") as host:
        await host.approvals.approve(waits["approval"], ANN)

        ended = await outcome(host, waits["call_id"])
        assert ended["error"]["code"] == "approval.changed"
        assert ended["error"]["details"]["changed"] == ["the plugin's files"]
        assert (await host.approvals.find("default", waits["approval"]))["state"] == "voided"
    assert office.done == []


async def test_all_that_others_approved_and_did_not_make_are_made_some_with_each_check(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "CHECK_INTERVAL_S", 0.01)
    for module in (resume, open_requests):
        monkeypatch.setattr(module, "UNUSED_PAGE_ROWS", 2)
    async with office.open() as host:
        many = [await held(host) for _ in range(5)]
        async with open_database(office.home / "data" / "paddock.db", role="command") as database:
            desk = build_approvals(database, SystemClock(), SystemRandom())  # of a host that dies then
            for waits in many:
                await desk.approve("default", waits["approval"], ANN)

        ends = [await outcome(host, waits["call_id"]) for waits in many]

    assert [one["status"] for one in ends] == ["succeeded"] * 5
    assert office.done == ["bob"] * 5


# --- what was cancelled is not made, now or after a restart ---------------------------------------------------------


async def test_whoever_cancels_an_edited_call_cancels_what_took_its_place(office: Office) -> None:
    office.rule(TWO_SAY_YES)
    async with office.open() as host:
        waits = await held(host)
        edited = await host.approvals.approve(waits["approval"], CLEO, payload={"to": "eve"})
        live = await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)
        shown: Any = live.to_json().get("approval")
        await host.approvals.cancel(live)

        assert edited["id"] != waits["approval"]
        assert (shown["approval"], shown["preview"]["params"]) == (edited["id"], {"to": "eve"})
        assert (await host.approvals.find("default", edited["id"]))["state"] == "withdrawn"
        with pytest.raises(Conflict, match="was withdrawn: it was cancelled"):
            await host.approvals.approve(edited["id"], DAN)
    async with office.open() as host:
        assert await waiting_count(host) == host.calls.registry.running_count == 0
    assert office.done == []


async def test_a_yes_that_comes_with_a_cancellation_is_good_for_nothing(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        live = await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)
        # Both are under way at once; either may be first.
        await asyncio.gather(
            host.approvals.cancel(live), host.approvals.approve(waits["approval"], ANN), return_exceptions=True
        )
        await outcome(host, waits["call_id"])
        left = (await host.approvals.find("default", waits["approval"]))["state"]
        done = list(office.done)

    assert (left, done) in (("withdrawn", []), ("consumed", []), ("consumed", ["bob"]))
    async with office.open() as host:
        assert await waiting_count(host) == host.calls.registry.running_count == 0
    assert office.done == done


async def test_a_call_that_is_cancelled_while_it_runs_is_recorded_as_that(office: Office) -> None:
    began = asyncio.Event()

    async def look() -> None:
        began.set()
        await asyncio.Event().wait()

    office.functions["look"] = look
    async with office.open() as host:
        live = host.calls.registry.start("mail", "look", {}, made_by(ANN))
        async with asyncio.timeout(30):
            await began.wait()
            await host.approvals.cancel(live)
            await live.wait_ended()

    (entry,) = office.calls()
    assert (entry["status"], entry["error_code"]) == ("cancelled", "call.cancelled")


# --- what ended without its call is told to whoever waits -----------------------------------------------------------


async def test_a_call_is_given_up_with_its_request_also_where_its_plugin_is_gone(office: Office) -> None:
    office.rule(NOTES_ARE_ASKED_ABOUT)
    async with office.open() as host:
        denied, approved = await held(host, "mail.note"), await held(host, "mail.note")
        await office.remove(host)
        await host.approvals.deny(denied["approval"], ANN, comment="no notes")
        with pytest.raises(NotFound):
            await host.approvals.approve(approved["approval"], ANN)

        assert (await outcome(host, denied["call_id"]))["error"]["code"] == "approval.denied"
        assert (await outcome(host, approved["call_id"]))["error"]["code"] == "approval.voided"
        assert (await host.approvals.find("default", approved["approval"]))["state"] == "voided"
        assert await waiting_count(host) == 0


# --- many of them ---------------------------------------------------------------------------------------------------


async def test_however_many_wait_all_of_them_survive_a_restart(office: Office) -> None:
    async with office.open() as host:
        many = [await held(host) for _ in range(REQUESTS_PAGE_ROWS + 2)]
    async with open_database(office.home / "data" / "paddock.db") as database:  # a host that dies right after the yes
        desk = build_approvals(database, SystemClock(), SystemRandom())
        await desk.approve("default", many[-1]["approval"], ANN)
    async with office.open() as host:
        assert (await outcome(host, many[-1]["call_id"]))["status"] == "succeeded"
        assert await waiting_count(host) == REQUESTS_PAGE_ROWS + 1
        assert host.calls.registry.list_current(DEFAULT_TENANT) == [], "those that wait are rows, and nothing else"
        listed = await host.approvals.list_requests("default", limit=3)

    assert office.done == ["bob"]
    assert [one["id"] for one in listed] == [one["approval"] for one in many[-2:-5:-1]]
    assert "params" not in listed[0]["preview"]


async def test_whoever_floods_the_people_who_answer_is_refused_and_others_are_not(office: Office) -> None:
    async with office.open(PADDOCK_LIMITS_WAITING_PER_PRINCIPAL="2") as host:
        first = await held(host)
        await held(host)
        with pytest.raises(Busy, match="local:ann has 2 calls waiting for a person"):
            await host.call("mail.send", {"to": "bob"}, context=made_by(ANN))
        with pytest.raises(NeedsApproval):
            await host.call("mail.send", {"to": "bob"}, context=made_by(CLEO))
        with pytest.raises(NeedsApproval):
            await host.call("mail.send", {"to": "bob"}, context=made_by(DAN))
        await host.approvals.cancel(await host.calls.waiting.find(first["call_id"], DEFAULT_TENANT))
        await held(host)

    refused = [call for call in office.calls() if call["error_code"] == "approval.too_many"]
    assert [call["status"] for call in refused] == ["refused"]
    assert http_status(Busy("", code="approval.too_many")) == 429
