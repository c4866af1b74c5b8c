"""Every entrance to the host treats calls alike: the same registry, the same limit, the same end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, held, made_by, waiting_count
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from fixtures.butler import butler
from paddock import Config, open_host
from paddock.core.errors import Busy
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.admission import call_slots
from paddock.gate.invocation import CallCancelled
from paddock.host.host import Host
from paddock.plugins.manage.enable import enable
from paddock.runtime import connection

Enter = Callable[[Host], Coroutine[Any, Any, Any]]


async def through_mcp(host: Host) -> Any:
    target = host.calls.callable_access.catalogue(DEFAULT_TENANT).find("mail.look")
    return await host.calls.callable_access.call(target, {}, made_by(ANN))


async def through_http(host: Host) -> Any:
    target = host.calls.registry.find_target_by_name("mail.look", made_by(ANN))
    return await host.calls.registry.start_inline(target, {}, made_by(ANN))[1]


ENTRANCES: dict[str, Enter] = {
    "a program": lambda host: host.call("mail.look", {}, context=made_by(ANN)),
    "MCP": through_mcp,
    "HTTP": through_http,
    "HTTP, followed": lambda host: host.calls.registry.start("mail", "look", {}, made_by(ANN)).wait(),
}


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_no_entrance_takes_calls_while_the_host_drains(office: Office, entrance: str) -> None:
    async with office.open() as host:
        await host.drain()
        with pytest.raises(Busy) as refused:
            await ENTRANCES[entrance](host)
    assert refused.value.error_code == "host.draining"
    assert office.done == []


@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_a_call_is_found_among_the_calls_whichever_way_it_came(office: Office, entrance: str) -> None:
    async with office.open() as host:
        result = await ENTRANCES[entrance](host)
        (listed,) = host.calls.registry.recent(10, DEFAULT_TENANT)
        assert host.calls.registry.find(listed.id, DEFAULT_TENANT).result == result
    assert (listed.callable, listed.status) == ("look", "succeeded")


@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_no_entrance_has_room_beyond_the_limit(
    office: Office, entrance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_slots, "MAX_RUNNING_CALLS", 2)
    begun, go = asyncio.Event(), asyncio.Event()

    async def look() -> Any:
        begun.set()
        await go.wait()
        return office.do("look")

    office.functions["look"] = look
    async with office.open() as host, asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        first = tasks.create_task(ENTRANCES[entrance](host))
        await begun.wait()
        for enter in ENTRANCES.values():
            with pytest.raises(Busy):
                await enter(host)
        go.set()
        await first
        await ENTRANCES[entrance](host)
    assert office.done == ["look"] * 2


@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_a_call_under_way_is_ended_by_a_host_that_drains_for_too_long(office: Office, entrance: str) -> None:
    begun = asyncio.Event()

    async def look() -> Any:
        begun.set()
        await asyncio.sleep(600)

    office.functions["look"] = look
    async with office.open() as host, asyncio.timeout(30):
        call = asyncio.create_task(ENTRANCES[entrance](host))
        await begun.wait()
        await host.calls.registry.drain(0.01)
        with pytest.raises(CallCancelled, match="the host went down"):
            await call


async def test_documents_and_prompts_are_read_like_calls(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.take(butler(tmp_path / "butler"))
    home.changing(lambda plugins: enable(plugins, "butler"))
    async with open_host(Config(home=home.path, start="nothing")) as host:
        await patiently(host.plugins.features.read_resource("butler", "memo://one", host.operator_context(None)))
        await patiently(
            host.plugins.features.get_prompt("butler", "greet", {"who": "Ann"}, host.operator_context(None))
        )
        listed = host.calls.registry.recent(10, DEFAULT_TENANT)
        await host.drain()
        for read in (
            lambda: host.plugins.features.read_resource("butler", "memo://one", host.operator_context(None)),
            lambda: host.plugins.features.get_prompt("butler", "greet", {"who": "Ann"}, host.operator_context(None)),
        ):
            with pytest.raises(Busy) as refused:
                await patiently(read())
            assert refused.value.error_code == "host.draining"
    assert sorted(one.callable for one in listed) == ["prompt:greet", "resource:read"]


async def test_a_program_may_change_what_it_gets_and_the_ledger_has_what_the_plugin_gave(office: Office) -> None:
    async with office.open() as host:
        for change in (False, True):
            result = await host.call("mail.look", {}, context=made_by(ANN))
            if change:
                result["done"] = "something else"
    first, second = office.calls()
    assert first["result_hash"] == second["result_hash"]


async def test_a_program_that_is_being_cancelled_can_still_make_a_last_call(office: Office) -> None:
    async with office.open() as host:

        async def work() -> Any:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                return await host.call("mail.look", {}, context=made_by(ANN))

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(30):
            assert await task == {"done": "look"}


async def test_a_program_that_stops_waiting_ends_its_call(office: Office) -> None:
    begun = asyncio.Event()

    async def look() -> Any:
        begun.set()
        await asyncio.sleep(600)

    office.functions["look"] = look
    async with office.open() as host:
        task = asyncio.create_task(host.call("mail.look", {}, context=made_by(ANN)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert host.calls.registry.running_count == 0
    (entry,) = office.calls()
    assert entry["status"] == "cancelled"


async def test_a_call_of_a_program_that_waits_for_a_person_is_found_among_the_calls(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        assert (await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)).status == "pending_approval"
        ((listed, who),) = await host.calls.history.recent(ANN, 10)
        assert (listed["call_id"], listed["status"], who) == (waits["call_id"], "pending_approval", ANN.id)
        assert (await waiting_count(host), host.calls.registry.running_count) == (1, 0)


async def test_a_governed_call_builds_no_events_that_nobody_takes(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []
    for name in ("PluginMethodCalled", "PluginMethodReturned"):
        monkeypatch.setattr(connection, name, lambda **fields: built.append(fields))
    async with office.open() as host:
        await host.call("mail.look", {}, context=made_by(ANN))
    assert built == []
