"""What was in doubt is found out in the way that its plugin declares. On a whole host, with functions as a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.counting import SOON
from tests.gate.test_governed_calls import ANN, Office, made_by, tool

from fixtures.daemons import eventually
from paddock import Config, NoEffect, open_host
from paddock.core.errors import Conflict, Denied, PaddockError
from paddock.core.ids import CallId, Tenant
from paddock.gate.effects import outcomes
from paddock.gate.effects.in_doubt import HOST_LOST_MESSAGE, recovery_job_type
from paddock.gate.idempotency import record_queries, records
from paddock.gate.idempotency.records import RECOVER_JOB, EffectKey
from paddock.gate.idempotency.states import EffectState
from paddock.host import host as a_host
from paddock.host.host import Host
from paddock.queue import queue
from paddock.queue.leases import NodeRun
from paddock.store.database import Transaction, open_direct

FINDS_OUT = f"substr(kind, 1, {len(RECOVER_JOB)}) = '{RECOVER_JOB}'"
PROMISED = {"type": "object", "properties": {"done": {"type": "integer"}}, "required": ["done"]}


@asynccontextmanager
async def with_plugin(office: Office, functions: dict[str, Callable[..., Any]], **said: Any) -> AsyncGenerator[Host]:
    """A host whose plugin has a tool that answers wrongly at first, and one that looks."""
    tools = [tool("count", "db_write", output_schema=PROMISED, **said), tool("counted", "read_only")]
    manifest = {"paddock": 1, "name": "counter", "version": "1.0.0", "description": "Counts", "tools": tools}
    async with office.open(**SOON) as host:
        await host.embed(manifest, functions)
        yield host


async def count(host: Host) -> Any:
    return await host.call("counter.count", {}, context=made_by(ANN), idempotency_key="k1")


async def known(host: Host) -> Any:
    """What is answered under the key once it is not in doubt any more."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await count(host)
            except Conflict as error:
                assert error.error_code == "effect.in_doubt"
                await asyncio.sleep(0.02)


async def test_a_probe_that_says_yes_settles_it_and_its_word_is_the_answer(tmp_path: Path) -> None:
    office, asked = Office(tmp_path), list[Any]()

    def counted(idempotency_key: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append((idempotency_key, params))
        return {"happened": True, "result": {"done": 1}}

    functions = {"count": lambda: office.do("count"), "counted": counted}
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)
        assert await known(host) == {"done": 1}
    assert office.done == ["count"]
    assert asked == [("k1", {})]
    assert [entry.data["resolution"] for entry in office.ledger() if entry.type == "effect.resolved"] == ["probe"]


async def test_a_probe_that_says_no_lets_it_be_made_again_under_its_key(tmp_path: Path) -> None:
    office, answers = Office(tmp_path), [{"wrong": True}, {"done": 1}]
    functions = {"count": lambda: answers.pop(0), "counted": lambda idempotency_key, params: {"happened": False}}  # noqa: ARG005
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)
        assert await known(host) == {"done": 1}
    assert answers == []


async def test_what_the_other_side_knows_by_its_key_is_made_again(tmp_path: Path) -> None:
    office, answers = Office(tmp_path), [{"wrong": True}, {"done": 1}]
    functions = {"count": lambda: answers.pop(0), "counted": dict}
    async with with_plugin(office, functions, recovery="native_key") as host:
        with pytest.raises(PaddockError):
            await count(host)
        assert await known(host) == {"done": 1}
    assert answers == []
    assert [entry.data["resolution"] for entry in office.ledger() if entry.type == "effect.resolved"] == ["native_key"]


async def test_a_plugin_that_refuses_the_call_when_it_is_made_again_says_nothing_of_the_first(tmp_path: Path) -> None:
    office, answers = Office(tmp_path), [{"wrong": True}]

    def counts() -> Any:
        if not answers:
            raise NoEffect("not without its settings")
        return answers.pop()

    async with with_plugin(office, {"count": counts, "counted": dict}, recovery="native_key") as host:
        with pytest.raises(PaddockError):
            await count(host)
        await asyncio.to_thread(eventually, lambda: not left(office), "the host has asked again")
        with pytest.raises(Conflict) as doubted:
            await count(host)
    assert doubted.value.error_code == "effect.in_doubt"
    assert not [entry for entry in office.ledger() if entry.type == "effect.resolved"]


class Stuck:
    """A tool that is at work until its caller or its host has gone, and answers at once when it is called again."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.times = 0

    async def count(self) -> dict[str, int]:
        self.times += 1
        if self.times == 1:
            self.begun.set()
            await asyncio.Event().wait()
        return {"done": self.times}


async def test_a_call_that_somebody_has_cancelled_is_not_made_again_and_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "_STOP_GRACE", outcomes._STOP_GRACE / 100)
    office, stuck = Office(tmp_path), Stuck()
    async with with_plugin(office, {"count": stuck.count, "counted": dict}, recovery="native_key") as host:
        call = asyncio.ensure_future(count(host))
        await stuck.begun.wait()
        call.cancel()
        await asyncio.wait({call})
        await asyncio.to_thread(eventually, lambda: not left(office), "the host has looked")
        with pytest.raises(Conflict) as doubted:
            await count(host)
    assert doubted.value.error_code == "effect.in_doubt"
    assert stuck.times == 1


async def test_a_call_that_is_cut_off_because_its_host_goes_down_was_cancelled_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "_STOP_GRACE", outcomes._STOP_GRACE / 100)
    monkeypatch.setattr(a_host, "DRAIN_TIMEOUT_S", 0.0)
    office, stuck = Office(tmp_path), Stuck()
    functions: dict[str, Callable[..., Any]] = {"count": stuck.count, "counted": dict}
    async with with_plugin(office, functions, recovery="native_key") as host:
        host.calls.registry.start("counter", "count", {}, made_by(ANN, idempotency_key="k1"))
        await stuck.begun.wait()
    async with with_plugin(office, functions, recovery="native_key") as host:
        assert await known(host) == {"done": 2}
    assert [entry.data["reason"] for entry in office.ledger() if entry.type == "effect.in_doubt"] == [HOST_LOST_MESSAGE]


async def test_a_call_that_the_rules_forbid_by_now_is_not_made_again_and_waits_for_a_person(tmp_path: Path) -> None:
    office = Office(tmp_path)

    async def counts() -> dict[str, Any]:
        office.rule('@id("off") @text("No more.") forbid (principal, action, resource == Callable::"counter.count");')
        await host.policy.active.reload_if_changed()
        return office.do("count")

    async with with_plugin(office, {"count": counts, "counted": dict}, recovery="native_key") as host:
        with pytest.raises(PaddockError):
            await count(host)
        await asyncio.to_thread(eventually, lambda: not left(office), "the host has looked")
        with pytest.raises(Denied):
            await count(host)
    assert office.done == ["count"]
    with open_direct(office.home / "data" / "paddock.db") as database:
        (doubted,) = database.read(lambda tx: record_queries.list_in_state(tx, EffectState.IN_DOUBT))
    assert doubted.effect_key.callable == "count"


async def test_what_a_probe_gives_as_the_answer_has_to_be_what_was_promised(tmp_path: Path) -> None:
    office, words = Office(tmp_path), ["one", 1]

    def counted(**_: Any) -> dict[str, Any]:
        return {"happened": True, "result": {"done": words.pop(0)}}

    functions = {"count": lambda: office.do("count"), "counted": counted}
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)
        assert await known(host) == {"done": 1}, "it was asked again"
    assert words == []


async def test_what_was_given_up_is_looked_for_again_at_the_next_start(tmp_path: Path) -> None:
    office = Office(tmp_path)
    functions: dict[str, Callable[..., Any]] = {"count": lambda: office.do("count"), "counted": dict}
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)
    with open_direct(office.home / "data" / "paddock.db") as database:
        assert database.write(lambda tx: tx.execute(f"DELETE FROM queue WHERE {FINDS_OUT}")) == 1

    functions["counted"] = lambda idempotency_key, params: {"happened": True, "result": {"done": 1}}  # noqa: ARG005
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        assert await known(host) == {"done": 1}
    assert office.done == ["count"]


async def test_a_plugin_that_declares_another_way_by_now_leaves_it_to_a_person(tmp_path: Path) -> None:
    office = Office(tmp_path)
    functions: dict[str, Callable[..., Any]] = {"count": lambda: office.do("count"), "counted": dict}
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)

    async with with_plugin(office, functions, recovery="native_key") as host:
        await asyncio.to_thread(eventually, lambda: not left(office), "the host has looked")
        with pytest.raises(Conflict) as doubted:
            await count(host)
    assert doubted.value.error_code == "effect.in_doubt"
    assert office.done == ["count"], "it did not get the key when it was made"


def left(office: Office) -> int:
    """Of how many it is still to be found out."""
    with open_direct(office.home / "data" / "paddock.db") as database:
        return len(database.read(lambda tx: tx.all(f"SELECT key FROM queue WHERE {FINDS_OUT}")))


def lost(tx: Transaction, number: str, recovery: str) -> None:
    """A call of a host that is gone."""
    of, here = EffectKey(Tenant("acme"), "counter", "count", f"k{number}"), NodeRun("node_a", 1)
    at, call = datetime.now(UTC).isoformat(), CallId(f"call_{number}")
    effect = records.claim(tx, of, call=call, payload_hash="h", holder=here, recovery=recovery, now=at, principal=None)
    assert effect is not None
    records.mark_started(tx, effect, holder=here, now=at, payload={}, context={})
    started = records.find_by_call(tx, of.tenant, call)
    assert started is not None
    records.mark_in_doubt(tx, started, error={})


@pytest.mark.parametrize("room", [queue.MAX_JOBS_PER_TENANT, 5])
async def test_all_that_nobody_looks_at_any_more_is_looked_at_again_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    office = Office(tmp_path)
    monkeypatch.setattr(queue, "MAX_JOBS_PER_TENANT", room)
    async with open_host(Config(home=office.home, environ={}, role="command")) as host, asyncio.timeout(30):
        with open_direct(office.home / "data" / "paddock.db") as database:
            database.write(lambda tx: [lost(tx, str(number), "probe") for number in range(1_001)])

        await host._gate.starter.effects.in_doubt.schedule_recoveries()  # pyright: ignore[reportPrivateUsage]

    assert left(office) == min(room, 1_001)


@pytest.mark.parametrize("recovery", ["atomic", "native_key", "probe", "none"])
def test_what_is_in_doubt_and_in_nobodys_hands_is_found_on_both_engines(database_address: str, recovery: str) -> None:
    now = datetime.now(UTC)
    with open_direct(database_address) as database:
        database.write(lambda tx: lost(tx, "1", recovery))
        found = database.read(record_queries.in_doubt_unscheduled)
        assert [effect.call for effect in found] == ([] if recovery == "none" else ["call_1"])
        kinds = {recovery_job_type(effect) for effect in found}
        database.write(lambda tx: [queue.enqueue(tx, "acme", kind, "call_1", due=now, now=now) for kind in kinds])
        assert database.read(record_queries.in_doubt_unscheduled) == []
