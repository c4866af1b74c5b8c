"""A connection that breaks while the start of a call is written: nobody knows whether it was, and it was not sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import pytest
from msgspec.structs import replace
from tests.gate.effects.test_once import note, recorded
from tests.gate.test_governed_calls import Office

from paddock.core.errors import StoreUnavailable
from paddock.core.tasks import DeferredCancellation
from paddock.gate.effects.deferred_cleanups import DeferredCleanups
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.store.database import Database, Engine, Transaction, open_direct

T = TypeVar("T")
Kept: TypeAlias = Literal["at once", "later", "never"]


class Unsure:
    """A database whose connection breaks in the first commit; what was committed may be seen only a while later."""

    def __init__(self, inside: Database, kept: Kept, *, away: bool) -> None:
        self.engine: Engine = inside.engine
        self.read, self.aclose = inside.read, inside.aclose
        self._inside, self._kept, self.away = inside, kept, away
        self.late: Callable[[Transaction], Any] | None = None
        self._broken = False

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        if not self._broken:
            self._broken = True
            if self._kept == "at once":
                await self._inside.write(fn, deferral)
            elif self._kept == "later":
                self.late = fn
            raise StoreUnavailable("the connection broke during a commit", code="store.outcome_unknown")
        if self.away:
            raise StoreUnavailable("the database is away", code="store.unavailable")
        return await self._inside.write(fn, deferral)

    async def comes_back(self) -> None:
        self.away = False
        if self.late is not None:
            await self._inside.write(self.late)


def unsure_at_the_start(host: Host, kept: Kept, *, away: bool) -> Unsure:
    gate = host._gate  # pyright: ignore[reportPrivateUsage]
    unsure = Unsure(gate.starter.database, kept, away=away)
    gate.starter = replace(gate.starter, database=unsure, cleanups=DeferredCleanups(repeat_after_s=(0.0, 3600.0)))
    return unsure


@pytest.mark.parametrize(
    ("kept", "away"), [("at once", False), ("at once", True), ("later", False), ("never", False), ("never", True)]
)
async def test_a_call_of_which_nobody_knows_whether_its_start_was_written_leaves_a_key_that_is_free(
    tmp_path: Path, kept: Kept, away: bool
) -> None:
    office = Office(tmp_path)
    async with office.open() as host:
        unsure = unsure_at_the_start(host, kept, away=away)
        with pytest.raises(StoreUnavailable) as broken:
            await note(host)
        assert broken.value.error_code == "store.outcome_unknown"
        if away or kept == "later":
            await unsure.comes_back()
            await host._gate.starter.retry_cleanups()  # pyright: ignore[reportPrivateUsage]  # as every two seconds
        left = recorded(office)
        assert (None if left is None else left.state) == (None if kept == "never" else EffectState.FAILED_NO_EFFECT)
        assert office.done == []
        assert await note(host) == {"done": "note"}
    assert office.done == ["note"]
    ends = [(call["type"], call.get("status")) for call in office.calls()]
    assert ends[-2:] == [("call.started", None), ("call.ended", "succeeded")]
    assert ("call.ended", "failed") in ends[:-2]


async def test_nobody_is_asked_about_a_call_whose_maker_heard_that_asking_failed(tmp_path: Path) -> None:
    office = Office(tmp_path)
    async with office.open() as host:
        desk = host._gate.starter.approvals  # pyright: ignore[reportPrivateUsage]
        unsure = Unsure(desk._database, "at once", away=False)  # pyright: ignore[reportPrivateUsage]
        desk._database = unsure  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(StoreUnavailable):
            await host.call("mail.send", {"to": "bob"})
        with open_direct(office.home / "data" / "paddock.db") as database:
            asked = database.read(lambda tx: [row["state"] for row in tx.all("SELECT state FROM approvals")])
    assert asked == ["withdrawn"]
