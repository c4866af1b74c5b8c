"""Delivering on each engine: by one host at a time, in order, and nothing by hands that lost it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.secrets.safe import keys_at
from tests.webhooks.office import Host, Office, office_at
from tests.webhooks.receiver import Got, Receiver, receiving

from paddock.core.errors import HostError
from paddock.queue import leases, queue
from paddock.queue.job import Job
from paddock.queue.lifespan import open_worker
from paddock.queue.schedule import RescheduleAt
from paddock.store.database import Transaction
from paddock.webhooks.retry import DeliveryRetryPolicy
from paddock.webhooks.webhook import DELIVERY_JOB


@pytest.fixture
async def office(database_address: str, tmp_path: Path) -> AsyncGenerator[Office, None]:
    async with office_at(database_address, tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def receiver() -> Generator[Receiver, None, None]:
    with receiving() as started:
        yield started


def groups(got: list[Got]) -> list[str]:
    return [one.event["data"]["group"] for one in got]


async def taken_by(host: Host) -> Job:
    """The work, in the hands of this host."""
    await host.noticing.scan()
    here, now = await host.node.current_run(), host.delivery.clock.now()

    def unit(tx: Transaction) -> Job | None:
        (row,) = tx.all("SELECT tenant, key FROM queue WHERE kind = ?", (DELIVERY_JOB,))
        return queue.claim_one(tx, here, row["tenant"], DELIVERY_JOB, row["key"], now=now)

    work = await host.delivery.database.write(unit)
    assert work is not None
    return work


async def arrived(receiver: Receiver, count: int) -> list[Got]:
    return await asyncio.to_thread(receiver.wait_for, lambda got: len(got) >= count)


async def test_of_several_hosts_each_event_is_delivered_by_one_and_in_order(office: Office, receiver: Receiver) -> None:
    paths = [f"/{number}" for number in range(6)]
    for path in paths:
        office.hook(receiver, path=path)
    hosts = [office.host(name) for name in ("one", "two", "three")]
    names = [f"g{number:02}" for number in range(20)]
    async with (
        open_worker(hosts[0].worker, hosts[0].node),
        open_worker(hosts[1].worker, hosts[1].node),
        open_worker(hosts[2].worker, hosts[2].node),
    ):
        for begin in range(0, len(names), 5):
            await office.happen(*names[begin : begin + 5])
            await asyncio.gather(*(host.noticing.scan() for host in hosts))
            count = (begin + 5) * len(paths)
            while len(receiver.got) < count:  # what came while one was at work is noticed at the next look
                await asyncio.gather(*(host.noticing.scan() for host in hosts))
                await asyncio.to_thread(receiver.wait_for_more, count)

    assert len(receiver.got) == len(names) * len(paths), "none twice"
    for path in paths:
        assert groups([one for one in receiver.got if one.path == path]) == names


async def test_a_host_that_fell_silent_is_taken_over_from_and_cannot_move_the_place_back(
    office: Office, receiver: Receiver
) -> None:
    hook = office.hook(receiver)
    await office.happen("first", "second")
    slow, other = office.host("slow"), office.host("other")
    work = await taken_by(slow)
    receiver.hold = threading.Event()
    stuck = asyncio.create_task(slow.delivery.run(work))
    assert await asyncio.to_thread(receiver.asked.wait, 60)

    await other.noticing.scan()

    def taken_for_dead(tx: Transaction) -> None:
        assert leases.end_lease(tx, work.holder)
        queue.release_held_by(tx, work.holder)

    await office.database.write(taken_for_dead)
    receiver.hold.set()
    second = await taken_by(other)
    assert await other.delivery.run(second) is None
    with pytest.raises(HostError) as lost:
        await stuck

    assert lost.value.error_code == "queue.stale"
    told = groups(receiver.got)
    assert sorted(set(told)) == ["first", "second"] and told.count("second") == 1, told
    shown, last = office.shown(hook), max(int(one.event["sequence"]) for one in receiver.got)
    assert (shown.attempts, shown.reason, shown.position) == (0, None, last)


async def test_what_fails_waits_longer_each_time_and_is_given_up_after_so_many_attempts(
    office: Office, receiver: Receiver
) -> None:
    hook = office.hook(receiver)
    await office.happen("first", "second")
    host = office.host("one", DeliveryRetryPolicy(max_attempts=4, first_backoff_s=5))
    receiver.answers.extend([500] * 4)
    work = await taken_by(host)

    pauses: list[float] = []
    while isinstance(again := await host.delivery.run(work), RescheduleAt):
        pauses.append((again.due - office.clock.now()).total_seconds())

    assert [round(one / 5 / 2**place, 1) for place, one in enumerate(pauses)] == pytest.approx([1.1] * 3, abs=0.11)
    assert groups(receiver.got) == ["first"] * 4 + ["second"]
    assert [(one.attempts, one.reason) for one in office.dead(hook)] == [(4, "status.500")]
    assert office.shown(hook).delivered == 1


async def test_looking_writes_nothing_while_nothing_fits_and_begins_where_it_ended(
    office: Office, receiver: Receiver
) -> None:
    hook = office.hook(receiver, "person.*")
    host = office.host("one")
    await office.happen(*(f"g{number}" for number in range(30)))
    before = office.shown(hook)
    found = await host.noticing.scan()

    assert (found.webhooks, found.due, office.shown(hook)) == (1, [], before)
    assert list(found.scanned.values()) == [before.position + 30]


async def test_a_secret_that_cannot_be_opened_is_no_attempt(office: Office, receiver: Receiver, tmp_path: Path) -> None:
    hook = office.hook(receiver)
    await office.happen("first")
    office.keys = keys_at(tmp_path / "elsewhere")
    host = office.host("one")
    work = await taken_by(host)

    assert isinstance(await host.delivery.run(work), RescheduleAt)
    shown = office.shown(hook)
    assert (shown.reason, shown.attempts, receiver.got) == ("secret.key_missing", 0, [])
