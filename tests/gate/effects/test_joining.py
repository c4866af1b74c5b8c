"""Those who come with a key that somebody has: they get what becomes of the one call, if it is theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.gate.effects.at_work import AtWork
from tests.gate.effects.test_going_away import slow_to_start
from tests.gate.effects.test_once import note, recorded
from tests.gate.test_governed_calls import ANN, Office, made_by, outcome

from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict, NeedsApproval, NoEffect, PaddockError
from paddock.core.ids import PrincipalId
from paddock.core.tasks import DeferredCancellation
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.store.database import Database, Engine, Transaction

BOB = Principal(PrincipalId("local:bob"), roles=frozenset({OPERATOR}), kind="local", interactive=True)
T = TypeVar("T")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def send(host: Host, to: str = "bob", by: Principal = ANN) -> Any:
    return await host.call("mail.send", {"to": to}, context=made_by(by), idempotency_key="k1")


async def all_wait(host: Host, count: int) -> None:
    """So many wait for the one call that is under way."""
    (underway,) = host._gate.starter.effects._active.values()  # pyright: ignore[reportPrivateUsage]
    async with asyncio.timeout(30):
        # Nobody tells when somebody begins to wait.
        while len(underway.over._waiters) < count:  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0)


# --- a call that fails ----------------------------------------------------------------------------------------------


async def test_callers_who_wait_for_a_call_that_fails_get_its_failure_and_nobody_tries_for_each(office: Office) -> None:
    begun, go, tries = asyncio.Event(), asyncio.Event(), list[int]()

    async def refuses() -> None:
        tries.append(1)
        begun.set()
        await go.wait()
        raise NoEffect("not now")

    office.functions["note"] = refuses
    async with office.open() as host:
        callers = [asyncio.ensure_future(note(host)) for _ in range(64)]
        await begun.wait()
        await all_wait(host, 63)  # whoever comes later tries again, and may
        go.set()
        answers = await asyncio.gather(*callers, return_exceptions=True)
        assert len(tries) == 1
        with pytest.raises(PaddockError, match="not now"):
            await note(host)
    assert [str(answer) for answer in answers] == ["not now"] * 64
    assert len(tries) == 2, "who comes later tries again"
    assert [call["status"] for call in office.calls() if call["type"] == "call.ended"] == ["failed"] * 65


async def test_where_the_first_goes_away_before_anything_happened_one_of_the_others_makes_the_call(
    office: Office,
) -> None:
    async with office.open() as host:
        slow = slow_to_start(host)
        first = asyncio.ensure_future(note(host))
        async with asyncio.timeout(30):
            await slow.given.wait()
            others = [asyncio.ensure_future(note(host)) for _ in range(16)]
            first.cancel()
            slow.go.set()
            assert await asyncio.gather(*others) == [{"done": "note"}] * 16
    assert office.done == ["note"]


# --- a call that a person is asked about ----------------------------------------------------------------------------


async def test_the_key_goes_on_to_stand_for_what_was_asked_when_a_person_changed_the_parameters(
    office: Office,
) -> None:
    work = AtWork(office, "send")
    async with office.open() as host:
        with pytest.raises(NeedsApproval) as waits:
            await send(host, "bob")
        await host.approvals.approve(waits.value.details["approval"], ANN, payload={"to": "carol"})
        await work.begun.wait()
        joins = asyncio.ensure_future(send(host, "bob"))
        with pytest.raises(Conflict) as clash:
            await send(host, "carol")
        work.go.set()
        made = await outcome(host, waits.value.details["call_id"])
        assert made["result"] == await joins == await send(host, "bob") == {"done": "carol"}
    assert clash.value.error_code == "effect.other_payload"
    assert office.done == ["carol"]


class Watched:
    """A database that looks at the records each time something was written."""

    def __init__(self, inside: Database, look: Callable[[], IdempotencyRecord | None]) -> None:
        self.engine: Engine = inside.engine
        self.read, self.aclose = inside.read, inside.aclose
        self._inside, self._look = inside, look
        self.seen: list[IdempotencyRecord | None] = []

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        result = await self._inside.write(fn, deferral)
        self.seen.append(self._look())
        return result


async def test_a_request_is_never_seen_before_its_key_is_kept(office: Office) -> None:
    """Whoever is quick with the yes would have the call made, and failed, before the key was kept: then for ever."""
    async with office.open() as host:
        approvals = host._gate.starter.approvals  # pyright: ignore[reportPrivateUsage]
        watched = Watched(approvals._database, lambda: recorded(office, name="send"))  # pyright: ignore[reportPrivateUsage]
        approvals._database = watched  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(NeedsApproval):
            await send(host)
    assert [effect and effect.state for effect in watched.seen] == [EffectState.AWAITING_APPROVAL]


# --- whose key it is ------------------------------------------------------------------------------------------------


async def test_what_came_of_a_call_is_only_for_whoever_made_it(office: Office) -> None:
    async def as_bob(host: Host) -> PaddockError:
        with pytest.raises(Conflict) as said:
            await host.call("mail.note", {}, context=made_by(BOB), idempotency_key="k1")
        return said.value

    work = AtWork(office)
    async with office.open() as host:
        mine = asyncio.ensure_future(note(host))
        await work.begun.wait()
        meanwhile = await as_bob(host)
        work.go.set()
        await mine
        afterwards = await as_bob(host)
        assert await note(host) == {"done": "note"}, "and it is still hers"
    assert {meanwhile.error_code, afterwards.error_code} == {"effect.other_principal"}
    assert dict(afterwards.details) == {"plugin": "mail"}
    assert office.done == ["note"]


async def test_a_key_under_which_a_call_failed_or_waits_is_nobody_elses_either(office: Office) -> None:
    def refuses() -> None:
        raise NoEffect("not now")

    office.functions["note"] = refuses
    async with office.open() as host:
        with pytest.raises(PaddockError, match="not now"):
            await note(host)
        with pytest.raises(Conflict) as failed:
            await host.call("mail.note", {}, context=made_by(BOB), idempotency_key="k1")
        with pytest.raises(NeedsApproval):
            await send(host)
        with pytest.raises(Conflict) as waits:
            await send(host, by=BOB)
    assert {failed.value.error_code, waits.value.error_code} == {"effect.other_principal"}
