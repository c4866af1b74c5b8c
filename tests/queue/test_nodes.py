"""Who works on a database: each run has its own epoch, and is over when it is gone and not before."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.queue.conftest import Yard

from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import HostError
from paddock.queue import leases, node
from paddock.queue.leases import LEASE_S
from paddock.queue.node import NodeRun, load_or_create_node_id, node_file, open_node
from paddock.store.database import open_database

POSTGRESQL = pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)


def name_of(home: Path) -> str:
    return load_or_create_node_id(home, SystemClock(), SystemRandom())


def test_a_home_keeps_its_name_in_a_file_that_is_private_to_it(tmp_path: Path) -> None:
    first = name_of(tmp_path)

    assert first == name_of(tmp_path)
    assert stat.S_IMODE(node_file(tmp_path).stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["node"]


@pytest.mark.parametrize(("content", "mode"), [("node_x", 0o600), ("", 0o600), (None, 0o644)])
def test_a_name_that_cannot_be_trusted_is_refused_with_what_to_type(
    tmp_path: Path, content: str | None, mode: int
) -> None:
    file = node_file(tmp_path)
    name_of(tmp_path)
    if content is not None:
        file.write_text(content)
    file.chmod(mode)

    with pytest.raises(HostError) as refused:
        name_of(tmp_path)

    assert refused.value.error_code == "node.id"
    assert str(file) in refused.value.hint


async def test_each_start_of_a_daemon_has_a_higher_epoch_and_ends_the_one_before(yard: Yard) -> None:
    crashed, other = await yard.node("node_a").current_run(), await yard.node("node_b").current_run()

    restarted = await yard.node("node_a").current_run()

    assert crashed.node == restarted.node == "node_a"
    assert crashed.epoch < restarted.epoch
    assert await yard.database.read(leases.list_runs) == {restarted, other}


async def test_a_command_takes_no_epoch_before_it_needs_one_and_ends_nobody(yard: Yard) -> None:
    daemon = await yard.node("node_a").current_run()
    command = yard.node("node_a", lasting=False)
    assert await yard.database.read(leases.list_runs) == {daemon}

    here = await command.current_run()

    assert here == await command.current_run()
    assert here.epoch > daemon.epoch
    assert await yard.database.read(leases.list_runs) == {daemon, here}
    await command.leave()
    assert await yard.database.read(leases.list_runs) == {daemon}


async def test_a_daemon_that_starts_does_not_end_a_command_of_its_home(yard: Yard) -> None:
    command = await yard.node("node_a", lasting=False).current_run()

    await yard.node("node_a").current_run()

    assert await yard.database.read(lambda tx: leases.has_lease(tx, *command))


@POSTGRESQL
async def test_who_has_been_silent_for_a_whole_lease_is_over_and_who_speaks_is_not(yard: Yard) -> None:
    watcher, talker, silent = (yard.node(f"node_{name}") for name in ("watcher", "talker", "silent"))
    gone = await silent.current_run()
    talks = await talker.current_run()
    assert await watcher.renew() == []

    await yard.pass_time(LEASE_S / 2)
    await talker.renew()
    assert await watcher.renew() == []
    await yard.pass_time(LEASE_S / 2)

    assert await watcher.renew() == [gone]
    assert not await yard.database.read(lambda tx: leases.has_lease(tx, *gone))
    assert await yard.database.read(lambda tx: leases.has_lease(tx, *talks))


@POSTGRESQL
async def test_time_in_which_nobody_could_look_is_nobodys_silence(yard: Yard) -> None:
    watcher, other = yard.node("node_a"), yard.node("node_b")
    gone = await other.current_run()
    await watcher.renew()
    await yard.pass_time(10 * LEASE_S)  # the database was away: neither could beat

    assert await watcher.renew() == []
    for _ in range(3):
        await yard.pass_time(LEASE_S / 4)
        assert await watcher.renew() == []
    await yard.pass_time(LEASE_S / 4)
    assert await watcher.renew() == [gone]


@POSTGRESQL
async def test_a_clock_that_is_moved_a_day_ends_nobody(yard: Yard) -> None:
    watcher, other = yard.node("node_a"), yard.node("node_b")
    await other.current_run()
    await watcher.renew()

    yard.clock.at = yard.clock.at.replace(day=2)  # the wall clock alone

    assert await watcher.renew() == []


@POSTGRESQL
async def test_who_was_taken_for_dead_goes_on_under_another_epoch_and_cannot_act_in_the_old_one(yard: Yard) -> None:
    paused, watcher = yard.node("node_a"), yard.node("node_b")
    old = await paused.current_run()
    await watcher.renew()
    await yard.pass_time(LEASE_S / 2)
    await watcher.renew()
    await yard.pass_time(LEASE_S / 2)
    assert await watcher.renew() == [old]

    with pytest.raises(HostError) as refused:
        await yard.database.write(lambda tx: leases.require_lease(tx, old))
    await paused.renew()

    assert refused.value.error_code == "node.lost"
    assert (await paused.current_run()).epoch > old.epoch


async def test_who_cannot_renew_its_lease_holds_nothing_before_others_may_take_over_and_goes_on_when_it_can(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = asyncio.Event()
    async with open_database(postgres_address) as database, asyncio.timeout(30):
        yard = Yard(database, postgres_address)
        cut_off = yard.node("node_a")
        cut_off.subscribe(on_lease_lost=lost.set)
        monkeypatch.setattr(node, "HEARTBEAT_INTERVAL_S", 0.05)
        monkeypatch.setattr(node, "LEASE_S", 0.5)
        here = await cut_off.current_run()
        with psycopg.connect(postgres_address) as other:
            other.execute("SELECT * FROM procrastinate_workers FOR UPDATE")  # no beat comes through, nor back
            await lost.wait()
            with pytest.raises(HostError) as refused:
                await cut_off.current_run()
        await cut_off.renew()

        assert refused.value.error_code == "node.lost"
        assert await cut_off.current_run() == here, "nobody took it for dead"
        await cut_off.leave()


async def test_only_a_host_that_others_watch_counts_as_dead_where_it_cannot_renew_its_lease(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "LEASE_S", node.HEARTBEAT_INTERVAL_S)
    alone = yard.node("node_a")
    await alone.current_run()
    await yard.database.read(leases.list_runs)

    assert alone.lease_at_risk is (yard.database.engine == "postgresql")


async def test_what_a_run_held_is_given_free_in_the_unit_that_ends_it(yard: Yard) -> None:
    over: list[NodeRun] = []
    full = True
    old = await yard.node("node_a").current_run()
    restarted = yard.node("node_a")

    def fails(tx: object, one: NodeRun) -> None:
        over.append(one)
        if full:  # as often as the unit is run: the store runs one that fails after changes again, by itself
            raise HostError("the disk is full", code="store.full")

    restarted.subscribe(on_lease_ended=fails)
    with pytest.raises(HostError):
        await restarted.current_run()
    assert await yard.database.read(leases.list_runs) == {old}  # nothing of it was kept

    full = False
    here = await restarted.current_run()

    assert set(over) == {old}
    assert await yard.database.read(leases.list_runs) == {here}


RUN = """
import asyncio, os, signal, sys
from pathlib import Path
from paddock.core.clock import SystemClock, SystemRandom
from paddock.queue.node import open_node
from paddock.store.database import open_database

async def main():
    clock, random = SystemClock(), SystemRandom()
    async with (
        open_database(sys.argv[1], role="command") as database,
        open_node(database, clock, random, state=Path(sys.argv[2]), daemon=sys.argv[3] == "daemon") as node,
    ):
        print((await node.current_run()).epoch, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("role", ["command", "daemon"])
async def test_a_run_of_the_same_home_is_known_to_be_gone_as_soon_as_it_is_killed_and_not_before(
    yard: Yard, database_address: str, tmp_path: Path, role: str
) -> None:
    words = [sys.executable, "-c", RUN, database_address, str(tmp_path), role]
    over: list[NodeRun] = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:  # noqa: ASYNC220 - nothing else runs
        assert running.stdout is not None
        theirs = NodeRun(name_of(tmp_path), int(running.stdout.readline()))
        async with open_node(yard.database, yard.clock, SystemRandom(), state=tmp_path, daemon=False) as command:
            command.subscribe(on_lease_ended=lambda _tx, one: over.append(one))
            await command.current_run()
            assert await command.end_dead_runs() == []
            running.kill()
            running.wait()

            assert await command.end_dead_runs() == over == [theirs]

            assert await yard.database.read(leases.list_runs) == {await command.current_run()}
            assert await command.end_dead_runs() == []
    assert list((tmp_path / "runs").iterdir()) == []


async def test_a_run_without_a_file_is_not_known_to_be_gone(yard: Yard, tmp_path: Path) -> None:
    async with open_node(yard.database, yard.clock, SystemRandom(), state=tmp_path, daemon=True) as daemon:
        elsewhere = await yard.node(daemon.name, lasting=False).current_run()
        await daemon.current_run()
        assert await daemon.end_dead_runs() == await daemon.renew() == []
        assert await yard.database.read(lambda tx: leases.has_lease(tx, *elsewhere))


async def test_a_host_that_ends_gives_its_lease_back(yard: Yard, tmp_path: Path) -> None:
    async with open_node(yard.database, yard.clock, SystemRandom(), state=tmp_path, daemon=True) as node:
        here = await node.current_run()
        assert await yard.database.read(leases.list_runs) == {here}

    assert await yard.database.read(leases.list_runs) == set()


async def test_a_run_whose_lock_file_cannot_be_made_holds_nothing_where_nobody_would_notice_its_death(
    yard: Yard, tmp_path: Path
) -> None:
    (tmp_path / "runs").touch()
    async with open_node(yard.database, yard.clock, SystemRandom(), state=tmp_path, daemon=False) as command:
        if yard.database.engine == "postgresql":
            here = await command.current_run()
            assert await yard.database.read(leases.list_runs) == {here}, "others notice its silence"
            return
        with pytest.raises(HostError) as refused:
            await command.current_run()

        assert refused.value.error_code == "node.lock"
        assert await yard.database.read(leases.list_runs) == set()

        (tmp_path / "runs").unlink()
        here = await command.current_run()
        assert await yard.database.read(leases.list_runs) == {here}
