"""The queue: what is put is there once, is taken by one, is fair, and belongs to nobody whose lease is over."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.queue.conftest import Yard

from paddock.core.errors import Busy, CallerError, HostError
from paddock.queue import queue
from paddock.queue.leases import LEASE_S


async def test_what_is_put_twice_is_there_once_as_it_was_first(yard: Yard) -> None:
    await yard.put("letter", payload={"to": "ann"})
    await yard.put("letter", payload={"to": "bob"}, after=60)
    await yard.put("letter", tenant="elsewhere")

    taken = await yard.take(await yard.node("node_a").current_run())

    assert [(work.tenant, work.key, work.payload) for work in taken] == [
        ("default", "letter", {"to": "ann"}),
        ("elsewhere", "letter", {}),
    ]


async def test_what_is_put_in_a_unit_that_fails_was_never_put(yard: Yard) -> None:
    now = yard.clock.now()

    def unit(tx: queue.Transaction) -> None:
        queue.enqueue(tx, "default", "post", "letter", due=now, now=now)
        raise CallerError("on second thoughts")

    with pytest.raises(CallerError):
        await yard.database.write(unit)

    assert await yard.left() == []


async def test_only_what_is_due_is_taken_the_oldest_first(yard: Yard) -> None:
    here = await yard.node("node_a").current_run()
    await yard.put("late", after=10)
    await yard.put("early", after=5)
    await yard.put("later", after=60)
    assert await yard.take(here) == []

    yard.clock.pass_time(10)

    assert [work.key for work in await yard.take(here)] == ["early", "late"]
    assert await yard.take(here) == []


async def test_a_tenant_with_much_to_do_does_not_keep_another_waiting(yard: Yard) -> None:
    here = await yard.node("node_a").current_run()
    await yard.put(*(f"much-{number}" for number in range(20)), tenant="busy")
    yard.clock.pass_time(1)
    await yard.put("one", tenant="quiet")
    await yard.put("two", "three", "four", tenant="third")

    taken = await yard.take(here, 8)

    assert [(work.tenant, work.key) for work in taken] == [
        ("busy", "much-0"),
        ("busy", "much-1"),
        ("busy", "much-10"),
        ("quiet", "one"),
        ("third", "four"),
        ("third", "three"),
    ]


async def test_a_tenant_has_room_for_so_much_and_no_more(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MAX_JOBS_PER_TENANT", 2)
    await yard.put("one", "two")

    with pytest.raises(Busy) as refused:
        await yard.put("three")
    await yard.put("two")  # it is there
    await yard.put("three", tenant="elsewhere")

    assert refused.value.error_code == "queue.full"
    with pytest.raises(CallerError, match="65,536 bytes"):
        await yard.put("large", tenant="elsewhere", payload={"text": "x" * queue.MAX_PAYLOAD_BYTES})


async def test_of_many_who_take_at_once_each_gets_something_else(yard: Yard) -> None:
    keys = [f"letter-{number}" for number in range(40)]
    await yard.put(*keys)
    nodes = [await yard.node(f"node_{number}").current_run() for number in range(4)]

    taken = await asyncio.gather(*(yard.take(here, 20) for here in nodes))

    assert sorted(work.key for some in taken for work in some) == sorted(keys)


async def test_what_a_dead_node_held_is_taken_by_another_and_the_dead_one_can_end_nothing(yard: Yard) -> None:
    dying, other = yard.node("node_a"), yard.node("node_b")
    await yard.put("letter")
    (held,) = await yard.take(await dying.current_run())
    await other.renew()
    assert await yard.take(await other.current_run()) == []

    for _ in range(2):
        yard.clock.pass_time(LEASE_S / 2)
        await other.renew()
    (work,) = await yard.take(await other.current_run())

    assert (work.key, work.tries) == ("letter", 2)
    for late in (queue.complete, lambda tx, one: queue.reschedule(tx, one, yard.clock.now(), now=yard.clock.now())):
        with pytest.raises(HostError) as refused:
            await yard.database.write(lambda tx, late=late: late(tx, held))
        assert refused.value.error_code == "queue.stale"
    with pytest.raises(HostError) as refused:
        await yard.take(held.holder)
    assert refused.value.error_code == "node.lost"
    await yard.database.write(lambda tx: queue.complete(tx, work))
    assert await yard.left() == []


async def test_a_daemon_that_starts_again_frees_its_own_at_once_and_nobody_elses(yard: Yard) -> None:
    await yard.put("mine")
    await yard.take(await yard.node("node_a").current_run())
    await yard.put("theirs")
    (theirs,) = await yard.take(await yard.node("node_b").current_run())

    restarted = await yard.node("node_a").current_run()

    assert [work.key for work in await yard.take(restarted)] == ["mine"]
    await yard.database.write(lambda tx: queue.complete(tx, theirs))


async def test_what_went_well_and_is_not_over_is_forgiven_what_failed_before(yard: Yard) -> None:
    here = await yard.node("node_a").current_run()
    await yard.put("letter")
    later = yard.clock.now() + timedelta(seconds=5)

    (work,) = await yard.take(here)
    await yard.database.write(
        lambda tx: queue.reschedule(tx, work, later, now=yard.clock.now(), reason="plugin.timeout")
    )
    (failed,) = await yard.left()
    yard.clock.pass_time(5)
    (work,) = await yard.take(here)
    await yard.database.write(lambda tx: queue.reschedule(tx, work, later, now=yard.clock.now()))
    (well,) = await yard.left()

    assert (failed["tries"], failed["reason"]) == (1, "plugin.timeout")
    assert (well["tries"], well["reason"], well["node"]) == (0, None, None)


async def test_what_was_dropped_cannot_be_ended_by_who_does_it(yard: Yard) -> None:
    await yard.put("letter")
    (work,) = await yard.take(await yard.node("node_a").current_run())

    assert await yard.database.write(lambda tx: queue.remove(tx, "default", "post", "letter"))

    with pytest.raises(HostError):
        await yard.database.write(lambda tx: queue.complete(tx, work))
    assert not await yard.database.write(lambda tx: queue.remove(tx, "default", "post", "letter"))


async def test_many_things_are_put_at_once_and_those_beyond_the_limit_are_not(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_JOBS_PER_TENANT", 120)
    now, things = yard.clock.now(), [("post", f"letter-{number:03}") for number in range(130)]
    await yard.put("letter-000", "other")

    put = await yard.database.write(lambda tx: queue.enqueue_many(tx, "default", things, due=now, now=now))

    left = sorted(row["key"] for row in await yard.left())
    assert put == 118
    assert left == [f"letter-{number:03}" for number in range(118)] + ["other"]
    here = await yard.node("node_a").current_run()
    assert [work.payload for work in await yard.take(here, 240)] == [{}] * 119


async def test_a_host_whose_calendar_is_somewhat_behind_brings_forward_nothing_that_others_put(yard: Yard) -> None:
    await yard.put("wait", after=10)
    before = await yard.left()

    behind = yard.clock.now() - timedelta(seconds=30)
    assert await yard.database.write(lambda tx: queue.rebase_due_times(tx, behind)) == 0

    assert await yard.left() == before
