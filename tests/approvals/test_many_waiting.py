"""Many requests: they are listed in pages, all of them are found again, and nobody may have any number of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from tests.approvals.conftest import ANN, Office, asking

from paddock.approvals.deadlines import NearestDeadlines
from paddock.approvals.request import PendingLimits
from paddock.approvals.service import Approvals
from paddock.core.clock import SystemRandom
from paddock.core.errors import Busy, NotFound
from paddock.store.database import Database, Engine, Transaction

T = TypeVar("T")


def with_room(office: Office, **room: int) -> Office:
    """The same office, where less may wait."""
    desk = Approvals(
        office.database, office.clock, SystemRandom(), lambda *_: office.heard, limits=PendingLimits(**room)
    )
    return Office(desk, office.database, office.clock, office.heard)


async def made(office: Office, count: int) -> list[str]:
    """So many requests, one after the other."""
    ids: list[str] = []
    for number in range(count):
        office.clock.pass_time(seconds=0.01)
        ids.append((await office.asked(call=f"call_{number}")).id)
    return ids


async def test_requests_are_listed_newest_first_in_pages_and_without_their_parameters(office: Office) -> None:
    ids = await made(office, 5)

    first = await office.desk.page("default", limit=2)
    second = await office.desk.page("default", before=first[-1].id, limit=2)
    last = await office.desk.page("default", before=second[-1].id, limit=2)

    assert [one.id for one in (*first, *second, *last)] == ids[::-1]
    assert all(not one.payload for one in (*first, *second, *last))
    assert (await office.desk.find("default", ids[0])).payload
    with pytest.raises(NotFound):
        await office.desk.page("default", before="apr_0")
    with pytest.raises(NotFound):
        await office.desk.page("elsewhere", before=ids[0])


async def test_a_page_of_what_is_open_leaves_out_what_ended(office: Office) -> None:
    denied, approved, pending = await made(office, 3)
    await office.desk.deny("default", denied, ANN)
    await office.desk.approve("default", approved, ANN)

    assert [one.id for one in await office.desk.page("default", open_only=True)] == [pending, approved]
    assert [one.id for one in await office.desk.page("default")] == [pending, approved, denied]


async def test_every_request_that_was_approved_and_not_used_is_found_however_many_there_are(office: Office) -> None:
    many = with_room(office, per_principal=1_000)
    ids = await made(many, 120)
    for each in ids[:-1]:
        await many.desk.approve("default", each, ANN)
    await many.consumed(ids[7])

    found = [one async for one in many.desk.iter_unused()]

    assert [one.id for one in found] == [*ids[:7], *ids[8:-1]]
    assert {one[1:] for one in found} == {("default", "mail", "send")}
    assert [one async for one in many.desk.iter_unused("another-plugin")] == []
    many.clock.pass_time(days=8)
    assert [one async for one in many.desk.iter_unused()] == [], "an approval that has expired cannot be used"


async def test_the_look_for_what_was_not_used_reads_nothing_of_what_was_asked(office: Office) -> None:
    (one,) = await made(office, 1)
    await office.desk.approve("default", one, ANN)
    await office.database.write(lambda tx: tx.execute("UPDATE approvals SET payload = 'nothing', binding = 'nothing'"))

    assert [unused.id async for unused in office.desk.iter_unused()] == [one]


class Slow:
    """A database whose answer arrives after something else has happened."""

    def __init__(self, inside: Database, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self.engine: Engine = inside.engine
        self.write, self.aclose = inside.write, inside.aclose
        self._inside, self._meanwhile = inside, meanwhile

    async def read(self, fn: Callable[[Transaction], T]) -> T:
        answer = await self._inside.read(fn)
        await self._meanwhile()
        return answer


async def test_a_request_made_while_deadlines_are_read_ends_at_its_own_all_the_same(office: Office) -> None:
    deadlines = NearestDeadlines()

    def desk(database: Database) -> Approvals:
        return Approvals(database, office.clock, SystemRandom(), lambda *_: office.heard, deadlines=deadlines)

    async def ask() -> None:
        await desk(office.database).ask(asking())

    await desk(Slow(office.database, ask)).refresh_deadlines()
    assert deadlines.due(office.clock.now()) == []
    office.clock.pass_time(days=8)
    assert deadlines.due(office.clock.now()) == ["default"]

    assert len(await desk(office.database).expire("default")) == 1
    assert deadlines.due(office.clock.now()) == []


async def test_one_who_calls_may_have_so_many_waiting_and_more_once_some_were_answered(office: Office) -> None:
    small = with_room(office, per_principal=2)
    first, _ = await made(small, 2)

    with pytest.raises(Busy, match="user:bob has 2 calls waiting for a person") as busy:
        await small.asked()
    await small.asked(requester="user:dan")  # somebody else
    await small.desk.approve("default", first, ANN)
    with pytest.raises(Busy):
        await small.asked()  # it was approved, and was not made yet
    await small.consumed(first)
    await small.asked()

    assert (busy.value.error_code, busy.value.retryable) == ("approval.too_many", True)


async def test_what_one_who_calls_has_waiting_may_be_so_large_altogether(office: Office) -> None:
    small = with_room(office, bytes_per_principal=1_000)
    await small.asked(payload={"text": "x" * 700})

    with pytest.raises(Busy, match="1,000 bytes of parameters") as busy:
        await small.asked(payload={"text": "x" * 700})
    await small.asked(payload={"text": "x" * 100})
    await small.asked(payload={"text": "x" * 700}, requester="user:dan")

    assert busy.value.error_code == "approval.too_many"
