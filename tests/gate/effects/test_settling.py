"""What is told of calls whose effect may have happened, and recorded of those that could not be at their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.gate.effects.at_work import AtWork
from tests.gate.effects.test_once import note, recorded
from tests.gate.test_governed_calls import ANN, Office, made_by, outcome, tool

from paddock.core.error_formats import error_to_json
from paddock.core.errors import Conflict, PaddockError, StoreUnavailable
from paddock.core.tasks import DeferredCancellation
from paddock.gate.idempotency import records
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.store.database import Database, Engine, Transaction

T = TypeVar("T")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


class Full:
    """A database on a disk that has no room for a while."""

    def __init__(self, inside: Database) -> None:
        self.engine: Engine = inside.engine
        self.read, self.aclose = inside.read, inside.aclose
        self._inside = inside
        self.full = True
        self.refusal: PaddockError = StoreUnavailable("there is no room left for the store", code="store.full")

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        if self.full:
            raise self.refusal
        return await self._inside.write(fn, deferral)


def database_of(host: Host) -> Database:
    return host._gate.starter.database  # pyright: ignore[reportPrivateUsage]


def full_at_the_end(host: Host) -> Full:
    """From here on no end of a call can be recorded."""
    settling = host._gate.starter.effects.outcomes  # pyright: ignore[reportPrivateUsage]
    full = settling._database = Full(settling._database)  # pyright: ignore[reportPrivateUsage]
    return full


async def taken_for_dead(host: Host, office: Office, key: str = "k1") -> None:
    """Another host finds this one silent, and what it had started in doubt."""
    effect = recorded(office, key)
    assert effect is not None and effect.state is EffectState.STARTED
    await database_of(host).write(lambda tx: records.mark_in_doubt(tx, effect, error={"code": "host.lost"}))


def told(office: Office) -> list[tuple[str, Any, Any]]:
    kinds = ("call.started", "call.ended", "effect.in_doubt")
    return [
        (entry.type, entry.data.get("status"), entry.data.get("error_code"))
        for entry in office.ledger()
        if entry.type in kinds
    ]


async def test_what_cannot_be_recorded_any_more_keeps_nothing_else_back(office: Office) -> None:
    async with office.open() as host:
        full = full_at_the_end(host)
        for key in ("k1", "k2"):
            with pytest.raises(StoreUnavailable) as unrecorded:
                await note(host, key)
            assert unrecorded.value.error_code == "effect.unrecorded"
        await taken_for_dead(host, office)
        full.full = False
        await host._gate.starter.retry_cleanups()  # pyright: ignore[reportPrivateUsage]
        first, second = recorded(office), recorded(office, "k2")
        assert first is not None and first.state is EffectState.IN_DOUBT
        assert second is not None and second.state is EffectState.SUCCEEDED
        assert await note(host, "k2") == {"done": "note"}
    assert office.done == ["note", "note"]
    assert [one for one in told(office) if one[0] == "call.ended"] == [
        ("call.ended", "in_doubt", "effect.stale"),
        ("call.ended", "succeeded", None),
        ("call.ended", "succeeded", None),
    ]


async def test_an_end_that_clashes_with_what_is_in_the_store_is_kept_until_it_can_be_recorded(office: Office) -> None:
    async with office.open() as host:
        full = full_at_the_end(host)
        full.refusal = Conflict("the rows clash with those already there", code="store.constraint")
        with pytest.raises(StoreUnavailable) as unrecorded:
            await note(host)
        assert unrecorded.value.error_code == "effect.unrecorded"
        await host._gate.starter.retry_cleanups()  # pyright: ignore[reportPrivateUsage]
        full.full = False
        await host._gate.starter.retry_cleanups()  # pyright: ignore[reportPrivateUsage]
        assert await note(host) == {"done": "note"}
    assert office.done == ["note"]


async def test_a_host_that_was_taken_for_dead_has_no_word_in_it_and_the_end_of_its_call_is_recorded(
    office: Office,
) -> None:
    work = AtWork(office)
    async with office.open() as host:
        call = asyncio.ensure_future(note(host))
        await work.begun.wait()
        await taken_for_dead(host, office)
        work.go.set()
        with pytest.raises(Conflict) as stale:
            await call
        with pytest.raises(Conflict) as doubt:
            await note(host)
    assert (stale.value.error_code, stale.value.details["effect"]) == ("effect.stale", "in_doubt")
    assert doubt.value.error_code == "effect.in_doubt"
    assert told(office)[:2] == [("call.started", None, None), ("call.ended", "in_doubt", "effect.stale")]


async def test_an_answer_that_breaks_its_promise_is_told_and_recorded_as_in_doubt_and_never_as_failed(
    office: Office,
) -> None:
    promised = {"type": "object", "properties": {"done": {"type": "integer"}}, "required": ["done"]}
    manifest = {
        "paddock": 1, "name": "odd", "version": "1.0.0", "description": "Odd",
        "tools": [tool("note", "db_write", output_schema=promised)],
    }  # fmt: skip
    async with office.open() as host:
        await host.embed(manifest, {"note": lambda: office.do("note")})
        with pytest.raises(PaddockError) as said:
            await host.call("odd.note", {}, context=made_by(ANN), idempotency_key="k1")
    error: Any = error_to_json(said.value)
    assert (error["code"], error["details"]["effect"]) == ("output_validation_error", "in_doubt")
    assert error["hint"].startswith("it may have happened; check whether it happened")
    assert not error["retryable"]
    assert told(office) == [
        ("call.started", None, None),
        ("call.ended", "in_doubt", "output_validation_error"),
        ("effect.in_doubt", None, None),
    ]


async def test_a_call_that_is_cancelled_while_its_plugin_works_is_told_and_recorded_as_in_doubt(office: Office) -> None:
    work = AtWork(office)
    async with office.open() as host:
        live = host.calls.registry.start("mail", "note", {}, made_by(ANN))
        await work.begun.wait()
        live.cancel()
        shown = await outcome(host, live.id)
    assert (shown["status"], shown["error"]["code"]) == ("in_doubt", "call.cancelled")
    assert told(office)[1:] == [("call.ended", "in_doubt", "call.cancelled"), ("effect.in_doubt", None, None)]
