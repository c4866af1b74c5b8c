"""The queue: what is put is there once, is taken by one, is fair, and belongs to nobody whose lease is over."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta

import psycopg
import pytest
from tests.queue.conftest import Yard

from paddock.core.errors import Busy, CallerError, HostError
from paddock.queue import engine_jobs, job_rows, queue
from paddock.queue.job import Job
from paddock.queue.lifespan import open_worker
from paddock.queue.worker import JobType

EMBEDDED = pytest.mark.parametrize("database_address", ["sqlite"], indirect=True)


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

    await yard.pass_time(10)

    assert [work.key for work in await yard.take(here)] == ["early", "late"]
    assert await yard.take(here) == []


async def test_a_tenant_with_much_to_do_does_not_keep_another_waiting(yard: Yard) -> None:
    async def hang(_work: Job) -> None:
        await asyncio.Event().wait()

    def held(rows: list[dict[str, object]]) -> Counter[object]:
        return Counter(row["tenant"] for row in rows if row["node"])

    await yard.put(*(f"much-{number}" for number in range(20)), tenant="busy")
    await yard.pass_time(1)
    await yard.put("one", tenant="quiet")
    await yard.put("two", "three", "four", tenant="third")
    node = yard.node("node_a")
    async with open_worker(yard.worker(node, {"post": JobType(hang)}, at_once=8), node), asyncio.timeout(20):
        while held(await yard.left()) != {"busy": 3, "quiet": 1, "third": 2}:  # noqa: ASYNC110 - rows tell nobody
            await asyncio.sleep(0.01)


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
    done: list[str] = []
    all_done = asyncio.Event()

    async def do(work: Job) -> None:
        done.append(work.key)
        if len(done) >= len(keys):
            all_done.set()

    keys = [f"letter-{number}" for number in range(40)]
    await yard.put(*keys)
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        for number in range(4):
            node = yard.node(f"node_{number}")
            await stack.enter_async_context(open_worker(yard.worker(node, {"post": JobType(do)}), node))
        await all_done.wait()

    assert sorted(done) == sorted(keys)
    assert await yard.left() == []


async def test_what_a_dead_node_held_is_taken_by_another_and_the_dead_one_can_end_nothing(yard: Yard) -> None:
    dying, other = yard.node("node_a"), yard.node("node_b")
    await yard.put("letter")
    (held,) = await yard.take(await dying.current_run())
    assert await yard.take(await other.current_run()) == []

    await yard.end(held.holder)
    (work,) = await yard.take(await other.current_run())

    assert (work.key, work.tries) == ("letter", 2)
    late = yard.clock.now()
    for unit in (
        lambda tx: queue.require_held(tx, held),
        lambda tx: queue.complete(tx, held),
        lambda tx: queue.reschedule(tx, held, late, now=late),
    ):
        with pytest.raises(HostError) as refused:
            await yard.database.write(unit)
        assert refused.value.error_code == "queue.stale"
    await yard.database.write(lambda tx: queue.release(tx, held))
    with pytest.raises(HostError) as refused:
        await yard.claim(held.holder, "letter")
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
    await yard.pass_time(5)
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


@EMBEDDED
async def test_a_host_whose_calendar_is_somewhat_behind_brings_forward_nothing_that_others_put(yard: Yard) -> None:
    await yard.put("wait", after=10)
    before = await yard.left()

    behind = yard.clock.now() - timedelta(seconds=30)
    assert await yard.database.write(lambda tx: job_rows.rebase_due_times(tx, behind)) == 0

    assert await yard.left() == before


async def test_a_payload_comes_back_as_it_was_put(yard: Yard) -> None:
    payload = {"text": "nul \0, quote ' and \u2028", "large": 2**63, "small": 1e-300, "list": [None, True, {}]}
    await yard.put("letter", payload=payload)

    (work,) = await yard.take(await yard.node("node_a").current_run())

    assert work.payload == payload


async def test_what_waits_can_be_made_due_and_what_is_held_cannot(yard: Yard) -> None:
    here = await yard.node("node_a").current_run()
    await yard.put("letter", payload={"to": "ann"}, after=3600)
    assert await yard.take(here) == []

    def expedite(tx: queue.Transaction) -> bool:
        return queue.expedite(tx, "default", "post", "letter", now=yard.clock.now())

    assert await yard.database.write(expedite)
    (work,) = await yard.take(here)

    assert (work.payload, work.tries) == ({"to": "ann"}, 1)
    assert not await yard.database.write(expedite)


async def test_what_comes_late_from_a_former_claim_changes_nothing_of_a_later_one_of_the_same_run(yard: Yard) -> None:
    here = await yard.node("node_a").current_run()
    await yard.put("letter")
    first = await yard.claim(here, "letter")
    assert first is not None
    await yard.database.write(lambda tx: queue.complete(tx, first))
    await yard.put("letter")
    second = await yard.claim(here, "letter")
    assert second is not None
    (held,) = await yard.left()

    await yard.database.write(lambda tx: queue.release(tx, first))
    with pytest.raises(HostError) as refused:
        await yard.database.write(lambda tx: queue.complete(tx, first))

    assert refused.value.error_code == "queue.stale"
    assert await yard.left() == [held]
    await yard.database.write(lambda tx: queue.complete(tx, second))
    assert await yard.left() == []


@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "question",
    [
        "SELECT 1 FROM effects WHERE call = 'c' AND EXISTS (SELECT 1 FROM queue WHERE queue.tenant = effects.tenant"
        " AND queue.key = effects.call AND queue.kind IN ('effect.recover', 'effect.recover:' || effects.node))",
        "SELECT 1 FROM queue WHERE tenant = 't' AND kind = 'post' AND key = '17'",
        f"SELECT id FROM procrastinate_jobs WHERE {engine_jobs.NAME} AND status = 'todo'".replace("?", "'17'"),
    ],
)
async def test_a_job_is_found_by_its_name_with_an_index(yard: Yard, database_address: str, question: str) -> None:
    with psycopg.connect(database_address) as server:
        server.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
            " SELECT 'q', 'post', jsonb_build_object('tenant', 't', 'key', n) FROM generate_series(1, 3000) AS n"
        )
        server.execute("ANALYZE procrastinate_jobs")
        plan = "\n".join(row[0] for row in server.execute("EXPLAIN " + question))  # pyright: ignore[reportArgumentType, reportCallIssue]

    assert "paddock_job_names" in plan
    conditions = [line for line in plan.splitlines() if "Index Cond" in line and "'tenant'" in line]
    assert conditions and all("'key'" in line for line in conditions), plan
