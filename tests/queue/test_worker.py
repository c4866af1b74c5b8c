"""The worker: does what is due when it is due, a few at once, tries again what fails, and gives up with a word."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.queue.conftest import Yard

from fixtures.commands import PATIENCE
from paddock.core.errors import PluginError
from paddock.core.events.system import QueueGivenUp
from paddock.queue import queue, worker
from paddock.queue.job import Job
from paddock.queue.leases import NodeRun
from paddock.queue.lifespan import open_worker
from paddock.queue.schedule import RescheduleAt, RetryPolicy
from paddock.queue.worker import JobType


class Postman:
    """Notes what it was asked to do, and does it as a test says."""

    def __init__(self, how: Callable[[Job], Awaitable[RescheduleAt | None]] | None = None) -> None:
        self.seen: list[str] = []
        self._how = how
        self._met = asyncio.Condition()

    async def __call__(self, work: Job) -> RescheduleAt | None:
        async with self._met:
            self.seen.append(work.key)
            self._met.notify_all()
        return await self._how(work) if self._how else None

    async def saw(self, count: int) -> None:
        async with asyncio.timeout(20), self._met:
            await self._met.wait_for(lambda: len(self.seen) >= count)


async def until(yard: Yard, fits: Callable[[list[dict[str, Any]]], bool]) -> None:
    async with asyncio.timeout(20):
        while not fits(await yard.left()):  # noqa: ASYNC110 - rows tell nobody
            await asyncio.sleep(0.01)


async def until_noticed(yard: Yard) -> None:
    """Wait until the waits count from now on. PostgreSQL measures them with a clock of its own."""
    if yard.database.engine == "sqlite":
        await until(yard, lambda rows: {row["due_at"][:10] for row in rows} == {"2026-02-28"})


async def until_left(yard: Yard, count: int) -> None:
    """Wait until so many rows are there that nobody holds, and no others."""
    await until(yard, lambda rows: [row["node"] for row in rows] == [None] * count)


async def test_what_is_put_is_done_as_soon_as_the_worker_is_woken(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "POLL_INTERVAL_S", 60.0)
    node, postman = yard.node("node_a"), Postman()
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node) as working:
        await yard.put("now")
        await yard.put("tomorrow", after=86_400)
        await yard.put("other", kind="another kind")
        working.wake()
        await postman.saw(1)
        await until_left(yard, 2)

        await yard.pass_time(86_400)
        working.wake()
        await postman.saw(2)
        await until_left(yard, 1)

    assert postman.seen == ["now", "tomorrow"]


async def test_no_more_than_so_many_are_done_at_once_and_all_are_done(yard: Yard) -> None:
    busy = most = 0

    async def slowly(work: Job) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.01)
        busy -= 1

    node, postman = yard.node("node_a"), Postman(slowly)
    await yard.put(*(f"letter-{number}" for number in range(20)))
    async with open_worker(yard.worker(node, {"post": JobType(postman)}, at_once=6), node):
        await postman.saw(20)
        await until_left(yard, 0)

    assert most == 3, "half of the places, for whoever else comes"
    assert len(set(postman.seen)) == 20


@pytest.mark.parametrize("other", [{"tenant": "quiet"}, {"kind": "parcel"}])
async def test_work_that_hangs_leaves_room_for_other_tenants_and_for_other_kinds(
    yard: Yard, other: dict[str, Any]
) -> None:
    async def hangs(work: Job) -> None:
        if work.key.startswith("stuck"):
            await asyncio.Event().wait()

    node, postman = yard.node("node_a"), Postman(hangs)
    await yard.put(*(f"stuck-{number}" for number in range(20)))
    async with open_worker(yard.worker(node, {"post": JobType(postman), "parcel": JobType(postman)}), node) as working:
        await postman.saw(2)
        await yard.put(*(f"quick-{number}" for number in range(20)), **other)
        working.wake()
        await until(yard, lambda rows: {row["key"] for row in rows} == {f"stuck-{number}" for number in range(20)})

        assert len([row for row in await yard.left() if row["node"]]) == 2, "of four places"


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_waits_does_so_for_as_long_as_it_should_when_the_calendar_is_set_back(
    yard: Yard, restarted: bool
) -> None:
    async def fails_once(work: Job) -> None:
        if work.key == "again" and postman.seen.count("again") == 1:
            raise PluginError("no ink", code="pen.empty")

    node, postman = yard.node("node_a"), Postman(fails_once)
    kinds = {"post": JobType(postman, RetryPolicy(first_delay_s=10))}
    await yard.put("again")
    await yard.put("soon", after=10)
    async with open_worker(yard.worker(node, kinds), node) as working:
        await until(yard, lambda rows: [row["reason"] for row in rows if row["key"] == "again"] == ["pen.empty"])
        if not restarted:
            yard.clock.set_back(days=1)
            working.wake()
            await until_noticed(yard)
            assert postman.seen == ["again"], "not before its time"
            await yard.pass_time(13)
            working.wake()
            await until_left(yard, 0)
    if restarted:
        yard.clock.set_back(days=1)
        node = yard.node("node_a")
        async with open_worker(yard.worker(node, kinds), node) as working:
            await until_noticed(yard)
            await yard.pass_time(13)
            working.wake()
            await until_left(yard, 0)
    assert sorted(postman.seen) == ["again", "again", "soon"]


async def test_what_fails_is_tried_again_later_and_given_up_with_a_word_in_the_ledger(yard: Yard) -> None:
    over: list[str] = []

    async def fails(work: Job) -> None:
        raise PluginError("no ink", code="pen.empty")

    kind = JobType(fails, RetryPolicy(first_delay_s=10, max_tries=3), on_given_up=lambda *told: over.append(told[-1]))
    node = yard.node("node_a")
    await yard.put("letter", payload={"to": "ann"})
    async with open_worker(yard.worker(node, {"post": kind}), node) as working:
        for tries in (1, 2):
            working.wake()
            await until(yard, lambda rows, tries=tries: (rows[0]["tries"], rows[0]["node"]) == (tries, None))
            (row,) = await yard.left()
            assert row["reason"] == "pen.empty"
            assert row["due_at"] > yard.clock.now().isoformat()
            await yard.pass_time(30)
        working.wake()
        await until_left(yard, 0)

    assert yard.heard.events == [QueueGivenUp(kind="post", work="letter", times=3, error_code="pen.empty")]
    assert over == ["pen.empty"]


async def test_a_fault_of_ours_or_one_that_never_ends_counts_as_a_failure_and_others_go_on(yard: Yard) -> None:
    async def odd(work: Job) -> None:
        if work.key == "wrong":
            raise ZeroDivisionError
        if work.key == "endless":
            await asyncio.Event().wait()

    node, postman = yard.node("node_a"), Postman(odd)
    await yard.put("wrong", "endless", "good")
    kind = JobType(postman, RetryPolicy(first_delay_s=100), timeout_s=0.05)
    async with open_worker(yard.worker(node, {"post": kind}), node):
        await until(yard, lambda rows: len(rows) == 2 and all(row["reason"] for row in rows))

    assert {row["key"]: row["reason"] for row in await yard.left()} == {"endless": "queue.timeout", "wrong": "internal"}


async def test_what_kills_every_host_that_does_it_is_given_up_without_being_done_again(yard: Yard) -> None:
    await yard.put("letter")
    for _ in range(2):
        await yard.take(await yard.node("node_a").current_run())  # and dies

    node, postman = yard.node("node_a"), Postman()
    async with open_worker(yard.worker(node, {"post": JobType(postman, RetryPolicy(max_tries=2))}), node):
        await until_left(yard, 0)

    assert postman.seen == []
    assert yard.heard.events == [QueueGivenUp(kind="post", work="letter", times=3, error_code="queue.interrupted")]


async def test_what_is_not_over_is_done_again_when_it_says(yard: Yard) -> None:
    async def twice(work: Job) -> RescheduleAt | None:
        return None if postman.seen.count(work.key) > 1 else RescheduleAt(yard.clock.now() + timedelta(hours=1))

    node, postman = yard.node("node_a"), Postman(twice)
    await yard.put("letter")
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node) as working:
        await postman.saw(1)
        await until_left(yard, 1)
        await yard.pass_time(3600)
        working.wake()
        await until_left(yard, 0)

    assert postman.seen == ["letter", "letter"]
    assert yard.heard.events == []


async def test_what_ended_in_a_unit_of_its_own_is_not_ended_twice(yard: Yard) -> None:
    async def itself(work: Job) -> None:
        await yard.database.write(lambda tx: queue.complete(tx, work))

    node, postman = yard.node("node_a"), Postman(itself)
    await yard.put("letter")
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node):
        await postman.saw(1)
        await until_left(yard, 0)

    assert yard.heard.events == []


def test_the_embedded_store_needs_nothing_of_the_engine() -> None:
    loaded = "import sys, paddock.queue.lifespan; print({'procrastinate', 'psycopg'} & sys.modules.keys())"

    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert said.stdout == "set()\n"


async def test_a_worker_that_ends_lets_what_runs_end_and_puts_the_rest_back_unharmed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "DRAIN_TIMEOUT_S", 1.0)
    monkeypatch.setattr(worker, "RELEASE_TIMEOUT_S", PATIENCE)

    async def some(work: Job) -> None:
        await (asyncio.sleep(0.05) if work.key == "short" else asyncio.Event().wait())

    node, postman = yard.node("node_a"), Postman(some)
    await yard.put("short", "long")
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node):
        await postman.saw(2)

    assert [(row["key"], row["tries"], row["node"]) for row in await yard.left()] == [("long", 0, None)]


@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
async def test_what_was_fetched_is_done_also_where_the_connection_broke_before_the_answer(
    yard: Yard, database_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "POLL_INTERVAL_S", 0.2)
    node, postman = yard.node("node_a"), Postman()
    here = await node.current_run()
    await yard.put("letter")
    assert await yard.claim(here, "letter"), "for the worker, which does not hear of it"
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node) as working:
        await yard.put("another")
        working.wake()
        await postman.saw(1)
        cut_connections(database_address)
        await postman.saw(2)
        await until_left(yard, 0)

    assert postman.seen == ["another", "letter"]


@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
async def test_a_job_taken_again_by_the_node_that_lost_it_runs_once_in_its_new_name_whatever_the_old_run_does(
    yard: Yard, database_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "POLL_INTERVAL_S", 0.2)
    may_end, ended = [asyncio.Event(), asyncio.Event(), asyncio.Event()], asyncio.Event()

    async def waits(work: Job) -> None:
        number = postman.seen.count("letter") - 1 if work.key == "letter" else None
        if number is not None:
            await may_end[number].wait()
            asyncio.get_running_loop().call_later(0.1, ended.set)

    node, postman = yard.node("node_a"), Postman(waits)
    await yard.put("letter")
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node) as working:
        await postman.saw(1)
        await yard.end(await node.current_run())
        await node.renew()
        working.wake()
        await postman.saw(2)
        may_end[0].set()
        await ended.wait()
        (held,) = await yard.left()
        cut_connections(database_address)
        await yard.put("another")
        working.wake()
        await postman.saw(3)
        assert held in await yard.left(), "not given back while it runs"
        assert postman.seen == ["letter", "letter", "another"]

        may_end[1].set()
        await until_left(yard, 0)


def cut_connections(address: str, last_query: str = "%") -> None:
    with psycopg.connect(address, autocommit=True) as server:
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE %s",
            (last_query,),
        )


@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
async def test_a_job_whose_end_the_server_forgot_when_it_crashed_is_done_again_by_the_node_that_lives_on(
    yard: Yard, database_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "POLL_INTERVAL_S", 0.2)
    node, postman = yard.node("node_a"), Postman()
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node) as working:
        await yard.put("another")
        working.wake()
        await postman.saw(1)
        await until_left(yard, 0)
        await yard.put("letter", after=86_400)
        with psycopg.connect(database_address, autocommit=True) as server:  # as it would be again after the crash
            server.execute(
                "UPDATE procrastinate_jobs SET status = 'doing', scheduled_at = NULL,"
                " worker_id = (SELECT max(id) FROM procrastinate_workers)"
            )
        cut_connections(database_address, last_query="LISTEN%")
        await postman.saw(2)
        await until_left(yard, 0)

    assert postman.seen == ["another", "letter"]


@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
async def test_no_more_jobs_are_asked_of_the_engine_than_are_due(yard: Yard, database_address: str) -> None:
    with psycopg.connect(database_address, autocommit=True) as server:
        server.execute(f"ALTER DATABASE {server.info.dbname} SET track_functions = 'pl'")  # pyright: ignore[reportArgumentType, reportCallIssue]
    node, postman = yard.node("node_a"), Postman()
    await yard.put("letter")
    await yard.put("tomorrow", after=86_400)
    async with open_worker(yard.worker(node, {"post": JobType(postman)}, at_once=16), node):
        await postman.saw(1)
        await until_left(yard, 1)

    fetches = "SELECT calls FROM pg_stat_user_functions WHERE funcname = 'procrastinate_fetch_job_v2' AND calls > 0"
    async with asyncio.timeout(20):
        while not (found := await yard.database.read(lambda tx: tx.all(fetches))):  # noqa: ASYNC110 - rows tell nobody
            await asyncio.sleep(0.01)
    assert found == [{"calls": 1}]


@pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)
async def test_a_job_that_nobody_can_understand_keeps_no_other_from_being_done(
    yard: Yard, database_address: str
) -> None:
    node, postman = yard.node("node_a"), Postman()
    await yard.put("broken", "good")
    with psycopg.connect(database_address, autocommit=True) as server:
        server.execute("UPDATE procrastinate_jobs SET args = args - 'payload' WHERE args ->> 'key' = 'broken'")
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node):
        await postman.saw(1)
        await until(yard, lambda rows: [row["key"] for row in rows] == ["broken"])

    assert postman.seen == ["good"]


async def test_a_worker_that_failed_starts_again(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "POLL_INTERVAL_S", 0.05)
    node, postman = yard.node("node_a"), Postman()
    failed = False

    async def fails_once() -> NodeRun:
        nonlocal failed
        if not failed:
            failed = True
            raise ZeroDivisionError
        return await enter()

    enter = node.current_run
    monkeypatch.setattr(node, "current_run", fails_once)
    await yard.put("letter")
    async with open_worker(yard.worker(node, {"post": JobType(postman)}), node):
        await postman.saw(1)
        await until_left(yard, 0)

    assert failed
