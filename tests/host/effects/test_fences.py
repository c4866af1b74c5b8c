"""A plugin is served in a call with an effect only while the effect is that call's to make."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.capabilities.http.outside import Seen, Serve, reply, serving
from tests.capabilities.http.test_trouble import broken, silent
from tests.host.conftest import Home
from tests.host.effects.test_undeclared_effects import entries, tool
from tests.host.effects.test_web_services import UNASKED

from fixtures.packages import write_file
from paddock import Config, open_host
from paddock.core.errors import PaddockError
from paddock.gate.idempotency import record_queries, records
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.queue import leases
from paddock.store.database import Transaction, open_direct

PROGRAM = """
import json, os
from paddock_sdk import Host, Plugin
plugin = Plugin({name!r}, {version!r})
former = []

@plugin.tool
def act(url: str, host: Host):
    host.http.fetch(url + "/wait").wait()
    told = {{}}
    asks = {{
        "storage.exec": lambda: host.sql.exec("CREATE TABLE late (a)"),
        "storage.begin": lambda: host.sql.ask("begin", {{}}),
        "keyvalue.put": lambda: host.keyvalue.put("late", 1),
        "keyvalue.get": lambda: host.keyvalue.get("late"),
        "cache.set": lambda: host.cache.set("late", 1),
        "audit.write": lambda: host.audit.write("late"),
        "secrets.get": lambda: host.secrets.get("late"),
        "http.send": lambda: host.http.fetch({{"method": "POST", "url": url + "/late"}}),
    }}
    for name, ask in asks.items():
        try:
            ask().wait()
            told[name] = "served"
        except Exception as error:
            told[name] = (getattr(error, "data", None) or {{}}).get("code", repr(error))
    print("told " + json.dumps(told), file=__import__("sys").stderr, flush=True)
    return {{}}

@plugin.tool
def send(url: str, host: Host):
    host.http.fetch({{"method": "POST", "url": url + "/first"}}).wait()
    if host.keyvalue.get("died").wait() is None:
        host.keyvalue.put("died", True).wait()
        os._exit(1)
    return {{}}

@plugin.tool
def insist(url: str, host: Host):
    keyed = {{"method": "POST", "url": url, "headers": {{"Idempotency-Key": "mine"}}}}
    return {{"attempts": host.http.fetch(keyed, backoff=0).wait()["attempts"]}}

@plugin.tool
def hang(url: str, host: Host, waits: bool = True):
    former.append(host.http.fetch({{"url": url + "/hang", "timeout": 60}}))
    return host.http.fetch(url + "/heard").wait() if not waits else former[0].wait()

@plugin.tool
def look_back(host: Host):
    try:
        return former[0].wait()
    except Exception as error:
        return {{"told": error.data["code"]}}

@plugin.tool
def outlive(host: Host):
    former.append(plugin._active)
    plugin._active = former[0]  # so that what it asks for names the first call
    return {{"found": host.cache.get("k").wait()}}

plugin.run()
"""
TOOLS = [
    tool("act", "external_call") | {"effects": ["external_call", "db_write"]},
    tool("send", "external_call") | {"effects": ["external_call", "db_write"], "recovery": "native_key"},
    tool("insist", "external_call"),
    tool("hang", "read_only") | {"timeout_sec": 2},
    tool("look_back", "read_only"),
    tool("outlive", "read_only"),
]
GRANTED = ["host:http", "host:secrets", "host:cache", "host:storage", "storage:write"]


def acts(home: Home, *ports: int) -> None:
    granted = [*GRANTED, *(f"net:127.0.0.1:{port}" for port in ports)]
    home.install("acts", program=PROGRAM, tools=TOOLS, capabilities=granted, secrets=["late"])
    write_file(home.path / "policies" / "unasked.cedar", UNASKED).chmod(0o600)


def taken_for_dead(tx: Transaction) -> None:
    """What another daemon does with a host that has been silent for a whole lease."""
    for here in leases.list_runs(tx):
        leases.end_lease(tx, here)
        records.mark_in_doubt_for(tx, here, error={"code": "host.lost", "message": "lost"})


def resolved(tx: Transaction) -> None:
    """And what a person does then, who sees that nothing has happened."""
    taken_for_dead(tx)
    for effect in record_queries.list_in_state(tx, EffectState.IN_DOUBT):
        records.mark_failed(tx, effect, now="2026-03-01T00:00:00+00:00", error={})


@pytest.mark.parametrize(
    ("meanwhile", "word"),
    [(taken_for_dead, "call.stale"), (resolved, "call.stale"), (lambda _tx: None, "served")],
    ids=["the host was taken for dead", "somebody has said what became of it", "nothing happened"],
)
async def test_what_a_lost_call_still_asks_for_is_refused_and_recorded(
    home: Home, meanwhile: Callable[[Transaction], None], word: str
) -> None:
    async def wait(seen: Seen, writer: asyncio.StreamWriter) -> None:
        with open_direct(home.path / "data" / "paddock.db") as database:
            database.write(meanwhile)
        await reply()(seen, writer)

    async with serving(None, wait=wait, late=reply()) as server:
        acts(home, server.port)
        async with open_host(Config(home=home.path, environ={})) as host:
            made = host.call("acts.act", {"url": f"http://127.0.0.1:{server.port}"})
            if word == "served":
                await made
            else:
                with pytest.raises(PaddockError):
                    await made
            lines = [entry["line"] for entry in await host.plugins.logs.read_last("acts")]
    (told,) = (json.loads(line.partition("told ")[2]) for line in lines if line.startswith("told "))
    assert set(told.values()) == {word}
    assert [seen.path for seen in server.seen] == ["/wait", "/late"] if word == "served" else ["/wait"]
    denied = entries(home, "plugin.capability_denied")
    (started,) = entries(home, "call.started")
    assert [(one.data["method"], one.call) for one in denied] == (
        [] if word == "served" else [(method, started.call) for method in told]
    )


@pytest.mark.parametrize(
    ("answer", "then", "attempts"),
    [(reply(503), reply(), 2), (reply(303, location="/late"), reply(), 1), (broken, reply(), 2)],
    ids=["is to be sent again", "leads elsewhere", "is lost"],
)
@pytest.mark.parametrize("lost", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_the_fence_is_looked_at_before_each_request_that_a_lost_call_would_still_send(
    home: Home, answer: Serve, then: Serve, attempts: int, lost: bool
) -> None:
    async def first(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if lost:
            with open_direct(home.path / "data" / "paddock.db") as database:
                database.write(taken_for_dead)
        await answer(seen, writer)

    async with serving(None, page=[first, then], late=then) as server:
        acts(home, server.port)
        async with open_host(Config(home=home.path, environ={})) as host:
            made = host.call("acts.insist", {"url": f"http://127.0.0.1:{server.port}/page"})
            if not lost:
                assert (await made)["attempts"] == attempts
            else:
                with pytest.raises(PaddockError):
                    await made
    assert len(server.seen) == (1 if lost else 2)
    assert [one.data["method"] for one in entries(home, "plugin.capability_denied")] == ["http.send"] * lost


@pytest.mark.parametrize("how", ["answered", "cancelled", "timed out"])
async def test_a_request_ends_with_the_call_that_it_was_made_for_and_its_plugin_is_told(home: Home, how: str) -> None:
    hanging, left = asyncio.Event(), asyncio.Event()

    async def hang(seen: Seen, writer: asyncio.StreamWriter) -> None:
        hanging.set()
        await silent(seen, writer)
        left.set()

    async def heard(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await hanging.wait()
        await reply()(seen, writer)

    async with serving(None, hang=hang, heard=heard) as server:
        acts(home, server.port)
        async with open_host(Config(home=home.path, environ={})) as host, asyncio.timeout(20):
            asked = {"url": f"http://127.0.0.1:{server.port}", "waits": how != "answered"}
            made = asyncio.create_task(host.call("acts.hang", asked))
            await hanging.wait()
            if how == "cancelled":
                made.cancel()
            await asyncio.wait({made})
            await left.wait()
            assert await host.call("acts.look_back", {}) == {"told": "http.ended"}
    assert made.cancelled() if how == "cancelled" else bool(made.exception()) == (how == "timed out")
    assert [one.data["error_code"] for one in entries(home, "plugin.fetched") if one.data["status"] is None] == [
        "http.ended"
    ]


async def test_the_run_that_finds_out_what_became_of_it_has_a_higher_fence_and_is_served(home: Home) -> None:
    async with serving(None, first=reply()) as server:
        acts(home, server.port)
        async with open_host(Config(home=home.path, environ={})) as host:
            with pytest.raises(PaddockError):
                await host.call("acts.send", {"url": f"http://127.0.0.1:{server.port}"}, idempotency_key="k")
            async with asyncio.timeout(30):
                while len(server.seen) < 2:
                    server.heard.clear()
                    await server.heard.wait()
    first, again = (seen.headers for seen in server.seen)
    assert int(first["paddock-fence"]) < int(again["paddock-fence"])
    assert first["paddock-call"] == again["paddock-call"]
    assert first["idempotency-key"] == again["idempotency-key"]


async def test_what_is_asked_for_in_the_name_of_a_call_that_is_over_is_refused(home: Home) -> None:
    acts(home)
    async with open_host(Config(home=home.path, environ={})) as host:
        await host.call("acts.outlive", {})
        with pytest.raises(PaddockError) as refused:
            await host.call("acts.outlive", {})
    assert "no call with this token is under way" in refused.value.message


@pytest.mark.parametrize(
    ("state", "fence", "served"),
    [
        (EffectState.STARTED, 3, True),
        (EffectState.STARTED, 2, False),
        (EffectState.STARTED, 4, False),
        (EffectState.IN_DOUBT, 3, False),
        (EffectState.IN_DOUBT, 4, True),
        (EffectState.CLAIMED, 3, False),
        (EffectState.SUCCEEDED, 3, False),
        (EffectState.FAILED_NO_EFFECT, 3, False),
    ],
)
def test_one_fence_at_a_time_may_act(state: EffectState, fence: int, served: bool) -> None:
    from paddock.gate.idempotency.fencing import is_current

    fields: dict[str, Any] = dict.fromkeys(IdempotencyRecord.__struct_fields__)
    assert is_current(IdempotencyRecord(**fields | {"state": state, "fence": 3}), fence) is served
    assert not is_current(None, fence)
