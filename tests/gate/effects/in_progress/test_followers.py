"""Work in progress changes hands: whoever takes it over has the word, and nothing of it stays with who had it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.gate.effects.in_progress.test_in_progress import NAME, SUCCEEDED, Works, ask, call, failure, operator
from tests.gate.effects.test_going_away import Slow, gone
from tests.gate.effects.test_settling import Full, full_at_the_end
from tests.gate.test_governed_calls import ANN, made_by

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually
from paddock.core.errors import StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.tasks import DeferredCancellation
from paddock.gate.effects.poller import OperatorPoller
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import POLL_JOB
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.plugins.manage.remove import uninstall
from paddock.queue import leases, node, queue
from paddock.queue.leases import NodeRun
from paddock.store.database import Database, Engine, Transaction, open_direct

T = TypeVar("T")


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


def take_for_dead(works: Works) -> None:
    """As others do with a host of which they hear nothing: whatever it holds is free, and it does not know."""

    def unit(tx: Transaction) -> None:
        held = tx.one("SELECT node, epoch FROM queue WHERE node IS NOT NULL")
        assert held is not None
        here = NodeRun(held["node"], held["epoch"])
        assert leases.end_lease(tx, here) and queue.release_held_by(tx, here)

    with open_direct(works.home.path / "data" / "paddock.db") as database:
        database.write(unit)


def looks_of(host: Host) -> OperatorPoller:
    following = host._gate.long_running  # pyright: ignore[reportPrivateUsage]
    assert following is not None
    return following.poller


def waited_for(host: Host) -> int:
    """The ends of how many calls somebody of this host waits for."""
    return len(looks_of(host).waiters)


@pytest.mark.slow
async def test_whoever_takes_work_over_has_a_fence_of_its_own_and_the_late_answer_of_the_other_counts_for_nothing(
    works: Works,
) -> None:
    async with works.open() as slow, works.open("command") as quick:
        made = call(slow, {"ask": "waits"})
        await works.until("hung")
        fences = [works.effect().fence]
        take_for_dead(works)
        works.finish()
        assert await call(quick, {"ask": "waits"}) == SUCCEEDED
        fences.append(works.effect().fence)
        (works.outside / "released").touch()
        assert await made == SUCCEEDED
    assert fences == [2, 3], "the call itself had the first"
    ended = [one["status"] for one in works.told() if one["type"] == "call.ended" and one["replay_of"] is None]
    assert ended == ["succeeded"]
    assert works.begun == ["k1"]


@pytest.mark.slow
async def test_nothing_is_left_of_a_call_whose_caller_went_away_and_that_another_host_has_ended(works: Works) -> None:
    async with works.open("command") as first:
        made = call(first)
        await works.until("asked")
        made.cancel()
        await asyncio.gather(made, return_exceptions=True)
        async with works.open("command") as second:
            works.finish()
            assert await call(second) == SUCCEEDED
        assert waited_for(first) == 0


class Leaving:
    """A database whose caller goes in the moment in which something was written."""

    def __init__(self, inside: Database) -> None:
        self.engine: Engine = inside.engine
        self.read, self.aclose = inside.read, inside.aclose
        self._inside = inside
        self.caller: asyncio.Future[Any] | None = None

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        written = await self._inside.write(fn, deferral)
        if self.caller is not None:
            self.caller.cancel()
        return written


async def test_work_goes_on_whose_caller_goes_in_the_moment_in_which_it_is_parked(works: Works) -> None:
    async with works.open("command") as first:
        following = first._gate.long_running  # pyright: ignore[reportPrivateUsage]
        assert following is not None
        leaving = following._database = Leaving(following._database)  # pyright: ignore[reportPrivateUsage]
        made = leaving.caller = call(first)
        with pytest.raises(asyncio.CancelledError):
            await made
        assert works.effect().parked
    async with works.open("command") as second:
        works.finish()
        assert await call(second) == SUCCEEDED
    assert works.begun == ["k1"]


async def parked(works: Works, params: dict[str, Any] | None = None) -> None:
    """Have a call in progress that nobody waits for, nor follows."""
    async with works.open("command") as host:
        made = call(host, params)
        await asyncio.to_thread(eventually, lambda: waited_for(host) == 1, "it is in progress")
        made.cancel()
        await asyncio.gather(made, return_exceptions=True)


async def test_work_whose_plugin_was_uninstalled_is_in_doubt_at_the_next_look(works: Works) -> None:
    await parked(works)
    works.home.changing(lambda plugins: uninstall(plugins, NAME))
    async with works.open():
        await asyncio.to_thread(eventually, lambda: not works.parked, "nobody follows it any more")
    lost = works.effect()
    assert (lost.state, (lost.error or {}).get("code")) == (EffectState.IN_DOUBT, "plugin.uninstalled")


async def test_an_effect_has_happened_whose_plugin_was_uninstalled_while_it_answered(works: Works) -> None:
    await parked(works, {"ask": "waits"})
    works.finish()
    async with works.open() as host:
        await works.until("hung")
        works.home.changing(lambda plugins: uninstall(plugins, NAME))
        looking = asyncio.ensure_future(
            host.plugins.lifecycle.reconcile()
        )  # over once the plugin is, which is still at work
        await asyncio.to_thread(eventually, lambda: NAME not in host.callables(), "nobody can call it any more")
        (works.outside / "released").touch()
        await looking
        await asyncio.to_thread(eventually, lambda: not works.parked, "its end is recorded")
    kept = works.effect()
    assert kept.state is EffectState.SUCCEEDED
    (ended,) = [one for one in works.told() if one["type"] == "call.ended"]
    assert (ended["status"], ended["call"]) == ("succeeded", kept.call)


@pytest.mark.slow
async def test_a_daemon_starts_while_work_goes_on_whose_maker_is_gone_and_that_can_be_cancelled(works: Works) -> None:
    await parked(works)
    call_id, nobody = works.effect().call, dict(works.effect().context or {}) | {"principal": "user:gone"}
    with open_direct(works.home.path / "data" / "paddock.db") as database:
        database.write(lambda tx: tx.execute("UPDATE effects SET context = ?", (json.dumps(nobody),)))
    async with works.open() as host:
        assert works.parked, "nobody can say that it is over"
        await looks_of(host).cancel(DEFAULT_TENANT, call_id)
    assert works.effect().state is EffectState.IN_DOUBT


class SlowToRead:
    """A database whose answers come late once something was written."""

    def __init__(self, inside: Database) -> None:
        self.engine: Engine = inside.engine
        self.aclose = inside.aclose
        self._inside = inside
        self.written, self.go = asyncio.Event(), asyncio.Event()

    async def read(self, fn: Callable[[Transaction], T]) -> T:
        if self.written.is_set():
            await self.go.wait()
        return await self._inside.read(fn)

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        done = await self._inside.write(fn, deferral)
        self.written.set()
        return done


def is_queued(works: Works) -> bool:
    with open_direct(works.home.path / "data" / "paddock.db") as database:
        return bool(database.read(lambda tx: tx.all("SELECT 1 AS found FROM queue WHERE kind = ?", (POLL_JOB,))))


async def test_a_call_is_in_doubt_that_is_cancelled_while_others_look_at_it(works: Works) -> None:
    async with works.open() as host, works.open("command") as other:
        live = host.calls.registry.start(NAME, "", {}, made_by(ANN, idempotency_key="k1"))
        await works.until("asked")
        looks = looks_of(other)
        slow = looks._database = SlowToRead(looks._database)  # pyright: ignore[reportPrivateUsage]
        cancelled = asyncio.ensure_future(looks.cancel(DEFAULT_TENANT, live.id))
        async with asyncio.timeout(PATIENCE):
            await slow.written.wait()
            fence = works.effect().fence
            await asyncio.to_thread(
                eventually, lambda: works.effect().fence > fence or not is_queued(works), "the host looks, or cannot"
            )
            slow.go.set()
            await cancelled
            await live.wait_ended()
    assert works.effect().state is EffectState.IN_DOUBT
    assert live.status == "in_doubt"


async def test_work_that_nobody_follows_any_more_is_followed_from_the_next_start(works: Works) -> None:
    await parked(works)
    with open_direct(works.home.path / "data" / "paddock.db") as database:
        assert database.write(lambda tx: tx.execute("DELETE FROM queue WHERE kind = ?", (POLL_JOB,)))
    works.finish()
    async with works.open() as host:
        assert await call(host) == SUCCEEDED
    assert works.begun == ["k1"]


async def unrecorded(works: Works, host: Host) -> Full:
    """Have a call in progress whose end this host knows, and has no room for."""
    made = call(host)
    await works.until("asked")
    full = full_at_the_end(host)
    works.finish()
    assert (await failure(made)).error_code == "effect.unrecorded"
    assert works.parked
    return full


async def test_work_is_asked_about_again_once_the_end_that_was_known_of_it_counts_for_nothing(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.gate.effects.poller._RECORD_RETRY_DELAY", timedelta(seconds=0.2))
    async with works.open() as host:
        full = await unrecorded(works, host)
        with open_direct(works.home.path / "data" / "paddock.db") as database:
            database.write(lambda tx: records.raise_fence(tx, works.effect()))  # another did, and died
        full.full = False
        await asyncio.to_thread(eventually, lambda: not works.parked, "it is over")
        assert await call(host) == SUCCEEDED


async def test_a_call_has_succeeded_whose_end_was_known_when_somebody_cancelled_it(works: Works) -> None:
    async with works.open() as host:
        full = await unrecorded(works, host)
        with pytest.raises(StoreUnavailable):
            await looks_of(host).cancel(DEFAULT_TENANT, works.effect().call)
        full.full = False
        await looks_of(host).cancel(DEFAULT_TENANT, works.effect().call)
        assert works.effect().state is EffectState.SUCCEEDED
        assert await call(host) == SUCCEEDED


@pytest.mark.slow
async def test_whoever_waits_goes_on_waiting_when_a_cancel_breaks_off_that_could_not_be_recorded(works: Works) -> None:
    async with works.open() as host:
        made = call(host)
        await works.until("asked")
        full = full_at_the_end(host)
        settling = host._gate.starter.effects.outcomes  # pyright: ignore[reportPrivateUsage]
        slow = settling._database = Slow(full)  # pyright: ignore[reportPrivateUsage]
        await gone(asyncio.ensure_future(looks_of(host).cancel(DEFAULT_TENANT, works.effect().call)), slow)
        assert works.parked and waited_for(host) == 1
        full.full = False
        assert (await failure(made)).error_code == "effect.in_doubt"


@pytest.mark.slow
async def test_a_command_that_was_taken_for_dead_follows_its_call_under_its_next_name(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "HEARTBEAT_INTERVAL_S", 1.0)  # much longer than between two looks

    def all_taken_for_dead(tx: Transaction) -> None:
        for here in leases.list_runs(tx):
            assert leases.end_lease(tx, here)
            queue.release_held_by(tx, here)

    async with works.open("command") as host:
        made = call(host)
        await works.until("asked")
        with open_direct(works.home.path / "data" / "paddock.db") as database:
            database.write(all_taken_for_dead)
        works.finish()
        assert await made == SUCCEEDED
    assert works.begun == ["k1"]


def test_work_is_followed_to_its_end_by_another_daemon_of_the_same_postgresql(
    tmp_path: Path, postgres_address: str
) -> None:
    one = Paddock(tmp_path / "one" / "home", store=postgres_address)
    other = Paddock(tmp_path / "other" / "home", store=postgres_address)
    outside = tmp_path / "outside"
    one.quickly("plugin", "install", operator(tmp_path / "works", outside), "--yes", "--grant", f"write:fs:{outside}")
    one.quickly("plugin", "enable", NAME)
    shutil.copytree(one.trees, other.trees)  # the trees of plugins are each home's own
    with daemon(one) as first:
        made = ask(first, {}, "?detach=true")["call_id"]
        eventually((outside / "asked").exists, "the operator is asked again")
    (outside / "asked").unlink()
    with daemon(other) as second:
        eventually((outside / "asked").exists, "the other daemon asks it")
        seen = second.ask("GET", f"/calls/{made}").body["status"]
        (outside / "go").touch()
        answer = ask(second, {})
    assert seen == "in_progress"
    assert (answer["result"], answer["replay_of"]) == (SUCCEEDED, made)
    assert (outside / "begun").read_text().split() == ["k1"]
    with open_direct(postgres_address) as database:
        (kept,) = database.read(lambda tx: tx.all("SELECT call, state, node FROM effects"))
    assert kept == {"call": made, "state": "succeeded", "node": ""}
