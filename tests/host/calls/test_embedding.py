"""An application's own functions, called behind the same door as every plugin."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from tests.host.conftest import SAY, Home
from tests.runtime.stage import patiently

from fixtures.ledger_entries import list_recent
from paddock import Config, open_host
from paddock.core.errors import CallerError, Conflict, Invalid, PaddockError, PluginError, TimedOut
from paddock.plugins.dialects.envelope import OutputInvalid
from paddock.runtime.protocols.embedded.plugin import EmbeddedCall
from paddock.store.database import open_direct


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "effects": ["read_only"], **fields}


def manifest(*tools: Mapping[str, Any], name: str = "ours") -> dict[str, Any]:
    about = {"paddock": 1, "name": name, "version": "1.0.0", "description": "Of the application"}
    return {**about, "tools": list(tools)}


@pytest.mark.req("B-11")
async def test_a_function_is_called_by_its_name_with_its_parameters_checked_on_both_sides(home: Home) -> None:
    def say(text: str) -> dict[str, Any]:
        return {"text": text.upper()} if text != "break" else {"wrong": 1}

    async with open_host(Config(home=home.path, environ={})) as host:
        await host.embed(manifest(SAY), {"say": say})
        assert await host.call("ours.say", {"text": "hello"}) == {"text": "HELLO"}
        with pytest.raises(Invalid):
            await host.call("ours.say", {"text": 1})
        with pytest.raises(OutputInvalid):
            await host.call("ours.say", {"text": "break"})


@pytest.mark.req("B-11")
async def test_it_is_recorded_as_embedded_and_its_calls_like_every_other(home: Home) -> None:
    async with open_host(Config(home=home.path, environ={})) as host:
        await host.embed(manifest(tool("one")), {"one": lambda: 1})
        assert await host.call("ours.one", {}) == 1
    with open_direct(home.path / "data" / "paddock.db") as database:
        events = {event.type: event.data for event in database.read(list_recent)}
    assert events["plugin.embedded"]["name"] == "ours"
    assert (events["call.ended"]["name"], events["call.ended"]["method"]) == ("ours", "one")
    assert "plugin.spawned" not in events


async def test_plain_functions_run_on_threads_and_coroutines_side_by_side(home: Home) -> None:
    here, met = threading.get_ident(), asyncio.Barrier(20)

    async def together() -> str:
        await met.wait()
        return "all at once"

    async with open_host(Config(home=home.path, environ={})) as host:
        functions = {"thread": threading.get_ident, "together": together}
        await host.embed(manifest(tool("thread"), tool("together")), functions)
        assert await host.call("ours.thread", {}) != here
        answers = await patiently(asyncio.gather(*(host.call("ours.together", {}) for _ in range(20))))
        assert answers == ["all at once"] * 20


async def test_what_a_stream_yields_is_told_and_its_last_step_is_the_result(home: Home) -> None:
    async def count(to: int, call: EmbeddedCall) -> AsyncIterator[Any]:
        for number in range(to):
            call.progress(number, to)
            yield number
        yield {"counted": to}

    told: list[Mapping[str, Any]] = []
    async with open_host(Config(home=home.path, environ={})) as host:
        await host.embed(manifest(tool("count")), {"count": count})
        assert await host.call("ours.count", {"to": 2}, on_event=told.append) == {"counted": 2}
    assert [event["data"] for event in told if event["type"] == "data"] == [0, 1]
    assert [event["progress"] for event in told if event["type"] == "progress"] == [0, 1]


async def test_a_function_that_fails_fails_its_own_call_alone(home: Home) -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))

    def fail() -> None:
        raise TypeError("the details are the application's")

    async with open_host(Config(home=home.path, environ={})) as host:
        await host.embed(manifest(tool("fail"), tool("fine")), {"fail": fail, "fine": lambda: "fine"})
        with pytest.raises(PluginError, match="TypeError") as failed:
            await host.call("ours.fail", {})
        assert "the details" not in str(failed.value)
        assert "exception handler" in failed.value.hint  # and not a log, which it has not
        with pytest.raises(CallerError, match=r"ours\.fine does not take these parameters: .*unexpected keyword"):
            await host.call("ours.fine", {"more": 1})
        assert await host.call("ours.fine", {}) == "fine"
    assert [str(fault["exception"]) for fault in faults] == ["the details are the application's"]


async def test_one_that_does_not_answer_in_time_is_stopped_and_the_next_call_is_served(home: Home) -> None:
    stopped = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with open_host(Config(home=home.path, environ={})) as host:
        tools = (tool("forever", timeout_sec=1), tool("fine"))
        await host.embed(manifest(*tools), {"forever": forever, "fine": lambda: "fine"})
        with pytest.raises(TimedOut):
            await host.call("ours.forever", {})
        await patiently(stopped.wait())
        assert await patiently(host.call("ours.fine", {})) == "fine"


async def test_as_many_plain_functions_run_at_once_as_are_let_in_whatever_else_hangs(home: Home) -> None:
    met = threading.Barrier(50, timeout=30)
    async with open_host(Config(home=home.path, environ={})) as host:
        await host.embed(manifest(tool("together")), {"together": lambda: met.wait() >= 0})
        answers = await patiently(asyncio.gather(*(host.call("ours.together", {}) for _ in range(50))))
    assert answers == [True] * 50


async def test_a_thread_that_outlives_the_time_of_its_call_leaves_the_effect_in_doubt_and_has_no_word_in_it(
    home: Home,
) -> None:
    go_on, over, begun = threading.Event(), threading.Event(), list[str | None]()

    def act(call: EmbeddedCall) -> dict[str, Any]:
        begun.append(call.context["idempotency_key"])
        go_on.wait(30)
        call.progress(1, 1, "late")
        over.set()
        return {"late": True}

    async with open_host(Config(home=home.path, environ={})) as host:
        await host.embed(manifest(tool("act", timeout_sec=1, effects=["db_write"])), {"act": act})

        async def called() -> str:
            with pytest.raises(PaddockError) as refused:
                await patiently(host.call("ours.act", {}, idempotency_key="k1"))
            return refused.value.error_code

        told = [await called(), await called()]
        go_on.set()
        assert await asyncio.to_thread(over.wait, 30)
        told.append(await called())
    assert told == ["plugin.timeout", "effect.in_doubt", "effect.in_doubt"]
    assert begun == ["k1"]
    with open_direct(home.path / "data" / "paddock.db") as database:
        ended = [event.data for event in database.read(list_recent) if event.type == "call.ended"]
    assert [one["status"] for one in ended if one["method"] == "act" and one["status"] != "refused"] == ["in_doubt"]


async def test_functions_that_do_not_fit_their_manifest_are_refused_with_every_mistake(home: Home) -> None:
    async with open_host(Config(home=home.path, environ={})) as host:
        with pytest.raises(Invalid) as refused:
            about = manifest(tool("declared")) | {"runtime": {"command": ["python3", "x.py"]}}
            await host.embed(about, {"served": lambda: 1})
        assert {problem.path for problem in refused.value.problems} == {"declared", "served", "runtime"}
        home_plugins = [row["name"] for row in await host.plugins.inventory.list_all()]
        assert (home_plugins, host.callables()) == ([], ())


async def test_it_takes_no_name_that_an_installed_plugin_has(home: Home) -> None:
    home.install("parrot")
    async with open_host(Config(home=home.path, environ={})) as host:
        with pytest.raises(Conflict):
            await host.embed(manifest(SAY, name="parrot"), {"say": lambda text: {"text": text}})
        assert (await host.call("parrot.say", {"text": "x"}))["version"] == "1.0.0"
