"""Callers who go away while the host writes about their call: what is on record is what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from tests.gate.effects.test_once import note, recorded
from tests.gate.test_governed_calls import Office

from paddock.core.tasks import DeferredCancellation
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.store.database import Database, Engine, Transaction

T = TypeVar("T")


class Slow:
    """A database with much to do: a unit is written some time after it was given away, whoever still waits for it."""

    def __init__(self, inside: Database) -> None:
        self.engine: Engine = inside.engine
        self.read, self.aclose = inside.read, inside.aclose
        self._inside = inside
        self.given, self.go = asyncio.Event(), asyncio.Event()

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        self.given.set()
        written = asyncio.ensure_future(self._later(fn))
        while deferral is not None and not written.done():
            try:
                await asyncio.shield(written)
            except asyncio.CancelledError as cancellation:
                deferral.hold(cancellation)
        return await asyncio.shield(written)

    async def _later(self, fn: Callable[[Transaction], T]) -> T:
        await self.go.wait()
        return await self._inside.write(fn)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    office = Office(tmp_path)
    office.functions["note"] = lambda what="": office.do(what)
    return office


def slow_to_start(host: Host) -> Slow:
    """Have the unit in which calls start wait from here on."""
    gate = host._gate  # pyright: ignore[reportPrivateUsage]
    slow = Slow(gate.starter.database)
    gate.starter = replace(gate.starter, database=slow)
    return slow


async def gone(call: asyncio.Future[Any], slow: Slow, *, times: int = 1) -> None:
    """Whoever made the call goes away while its start is being written."""
    async with asyncio.timeout(30):
        await slow.given.wait()
        for _ in range(times):
            call.cancel()
            await asyncio.sleep(0)
        slow.go.set()
        await asyncio.wait({call})
    assert call.cancelled()


@pytest.mark.parametrize("times", [1, 3])
async def test_whoever_goes_away_while_the_start_is_written_leaves_a_key_that_is_free(
    office: Office, times: int
) -> None:
    async with office.open() as host:
        slow = slow_to_start(host)
        await gone(asyncio.ensure_future(note(host, what="a")), slow, times=times)
        left = recorded(office)
        assert left is not None and left.state is EffectState.FAILED_NO_EFFECT, "it was on record, and never sent"
        assert left.error is not None and left.error["code"] == "call.cancelled"

        assert await note(host, what="a") == {"done": "a"}
    assert office.done == ["a"]
    course = [(call["type"], call.get("status")) for call in office.calls()]
    assert course == [
        ("call.started", None), ("call.ended", "cancelled"), ("call.started", None), ("call.ended", "succeeded"),
    ]  # fmt: skip


async def test_whoever_goes_away_while_the_end_is_written_finds_the_answer_under_the_key(office: Office) -> None:
    async with office.open() as host:
        settling = host._gate.starter.effects.outcomes  # pyright: ignore[reportPrivateUsage]
        slow = settling._database = Slow(settling._database)  # pyright: ignore[reportPrivateUsage]
        await gone(asyncio.ensure_future(note(host, what="a")), slow)
        left = recorded(office)
        assert left is not None and left.state is EffectState.SUCCEEDED, "on disk before anybody hears of the end"
        assert await note(host, what="a") == {"done": "a"}
    assert office.done == ["a"]
