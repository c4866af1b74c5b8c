"""One key, one effect: on a whole host, with functions of its own as a plugin."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.at_work import AtWork
from tests.gate.test_governed_calls import ANN, EVE, Office, held, made_by, outcome, tool

from paddock.core.action import Action
from paddock.core.errors import Conflict, Denied, Invalid, NeedsApproval, NoEffect, PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import EffectKey, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.store.database import open_direct


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def note(host: Host, key: str | None = "k1", **params: Any) -> Any:
    return await host.call("mail.note", params, context=made_by(ANN), idempotency_key=key)


def recorded(office: Office, key: str = "k1", name: str = "note") -> IdempotencyRecord | None:
    with open_direct(office.home / "data" / "paddock.db") as database:
        return database.read(lambda tx: records.find(tx, EffectKey(DEFAULT_TENANT, "mail", name, key)))


@pytest.mark.req("K-08", "same bytes back")
async def test_the_same_call_again_gives_the_same_answer_and_does_nothing(office: Office) -> None:
    async with office.open() as host:
        first, second = await note(host), await note(host)
    async with office.open() as host:  # and after a restart
        third = await note(host)

    assert first == second == third == {"done": "note"}
    assert office.done == ["note"]
    ended = [call for call in office.calls() if call["type"] == "call.ended"]
    assert [call["replay_of"] is not None for call in ended] == [False, True, True]
    assert [call["stands_for"] for call in ended] == [["plugin.method_returned"], [], []]


async def test_without_a_key_each_call_stands_for_itself(office: Office) -> None:
    async with office.open() as host:
        await note(host, None)
        await note(host, None)
    assert office.done == ["note", "note"]


@pytest.mark.req("K-08", "per tenant, operator and key")
@pytest.mark.req("K-08", "another payload is a conflict")
async def test_the_same_key_for_other_parameters_is_a_conflict_and_of_another_callable_another_key(
    office: Office,
) -> None:
    office.functions["note"] = lambda what="": office.do(what)
    async with office.open() as host:
        await note(host, what="a")
        with pytest.raises(Conflict) as clash:
            await note(host, what="b")
        assert await host.call("mail.look", {}, context=made_by(ANN), idempotency_key="k1") == {"done": "look"}
    assert clash.value.error_code == "effect.other_payload"
    known = recorded(office)
    assert known is not None
    assert clash.value.details["call_id"] == known.call, "whoever meets it can see what the key stands for"
    assert office.done == ["a", "look"]


@pytest.mark.req("K-08", "64 callers")
async def test_many_callers_with_one_key_have_one_effect(office: Office) -> None:
    work = AtWork(office)
    async with office.open() as host:
        callers = [asyncio.ensure_future(note(host)) for _ in range(64)]
        await work.begun.wait()
        work.go.set()
        answers = await asyncio.gather(*callers)
    assert answers == [{"done": "note"}] * 64
    assert office.done == ["note"]


async def test_parameters_that_do_not_fit_use_no_key_up(office: Office) -> None:
    async with office.open() as host:
        with pytest.raises(Invalid):
            await host.call("mail.send", {"to": 7}, context=made_by(ANN), idempotency_key="k1")
        assert recorded(office, name="send") is None
        with pytest.raises(NeedsApproval):
            await host.call("mail.send", {"to": "bob"}, context=made_by(ANN), idempotency_key="k1")


async def test_whoever_may_not_make_the_call_any_more_gets_no_former_answer(office: Office) -> None:
    async with office.open() as host:
        await note(host)
        with pytest.raises(Denied):
            await host.call("mail.note", {}, context=made_by(EVE), idempotency_key="k1")


async def test_what_failed_by_its_own_word_can_be_tried_again_under_the_same_key(office: Office) -> None:
    answers: list[Exception | None] = [NoEffect("not now"), None]

    def moody() -> dict[str, Any]:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return office.do("note")

    office.functions["note"] = moody
    async with office.open() as host:
        with pytest.raises(PaddockError, match="not now"):
            await note(host)
        failed = recorded(office)
        assert await note(host) == {"done": "note"}
    done = recorded(office)
    assert failed is not None and (failed.state, failed.fence) == (EffectState.FAILED_NO_EFFECT, 1)
    assert done is not None and (done.state, done.fence) == (EffectState.SUCCEEDED, 2)


async def test_an_answer_that_is_not_what_was_promised_leaves_the_effect_in_doubt(office: Office) -> None:
    promised = {"type": "object", "properties": {"done": {"type": "integer"}}, "required": ["done"]}
    manifest = {
        "paddock": 1, "name": "odd", "version": "1.0.0", "description": "Odd",
        "tools": [tool("note", "db_write", output_schema=promised)],
    }  # fmt: skip
    async with office.open() as host:
        await host.embed(manifest, {"note": lambda: office.do("note")})
        for _ in range(2):
            with pytest.raises(PaddockError) as said:
                await host.call("odd.note", {}, context=made_by(ANN), idempotency_key="k1")
    assert said.value.error_code == "effect.in_doubt"
    assert said.value.action == Action.of("call.unresolved.show", call=said.value.details["call_id"])
    assert office.done == ["note"], "and it is not made again"


async def test_a_caller_who_goes_away_leaves_the_effect_in_doubt(office: Office) -> None:
    work = AtWork(office)
    async with office.open() as host:
        call = asyncio.ensure_future(note(host))
        await work.begun.wait()
        call.cancel()
        await asyncio.wait({call})
        with pytest.raises(Conflict) as doubt:
            await note(host)
    assert doubt.value.error_code == "effect.in_doubt"
    effect = recorded(office)
    assert effect is not None and (effect.state, effect.payload) == (EffectState.IN_DOUBT, {})


# --- with a person's yes --------------------------------------------------------------------------------------------


async def test_who_comes_with_the_key_of_a_call_that_waits_is_told_of_the_same_request(office: Office) -> None:
    async with office.open() as host:
        told: list[str] = []
        for _ in range(2):
            with pytest.raises(NeedsApproval) as waits:
                await host.call("mail.send", {"to": "bob"}, context=made_by(ANN), idempotency_key="k1")
            told.append(waits.value.details["approval"])
        assert told[0] == told[1]
        await host.approvals.approve(told[0], ANN)
        made = await outcome(host, waits.value.details["call_id"])
        again = await host.call("mail.send", {"to": "bob"}, context=made_by(ANN), idempotency_key="k1")
    assert made["result"] == again == {"done": "bob"}
    assert office.done == ["bob"]


async def test_a_no_frees_the_key(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        await host.approvals.deny(waits["approval"], ANN)
        with pytest.raises(NeedsApproval):
            await host.call("mail.send", {"to": "bob"}, context=made_by(ANN), idempotency_key="k1")
    assert office.done == []


@pytest.mark.parametrize("key", ["", "x" * 256, "kéy", "a\nb", "call_01kd3v"])
async def test_what_is_no_key_is_refused(office: Office, key: str) -> None:
    async with office.open() as host:
        with pytest.raises(Invalid, match="idempotency key"):
            await note(host, key)
