"""A call that used the network or a model and does not say so is flagged: caged plugins, through a whole host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.capabilities.http.outside import reply, serving
from tests.capabilities.http.test_trouble import silent
from tests.gate.test_governed_calls import ANN, Office, made_by
from tests.host.conftest import Home
from tests.host.effects.test_undeclared_effects import recorded, tool
from tests.host.effects.test_web_services import UNASKED
from tests.runtime.stage import patiently
from tests.runtimes.test_python_code import kernel, opened, take

from fixtures.packages import write_file
from paddock import Config, open_host
from paddock.core.errors import PluginError

# An operator that runs on an event loop, so that several of its calls are under way in one process.
CODE = """
import asyncio
from paddock_sdk import disclose

kept, together = [], []

async def talk(port, connection=None):
    reader, writer = connection or await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello\\n")
    await writer.drain()
    line = await reader.readline()
    if connection is None:
        writer.close()
    return line.decode().strip()

async def run(request, host):
    asked = request["payload"]
    match asked["do"]:
        case "nothing":
            return {}
        case "talk":
            return {"heard": await talk(asked["port"])}
        case "disclose":
            return disclose({"heard": await talk(asked["port"])}, "web_content")
        case "deny":
            return disclose({"heard": await talk(asked["port"])})
        case "keep":
            kept.append(await asyncio.open_connection("127.0.0.1", asked["port"]))
            return {"heard": await talk(0, kept[0])}
        case "use":
            return {"heard": await talk(0, kept[0])}
        case "together":
            met = asyncio.get_running_loop().create_future()
            together.append(met)
            if len(together) == 2:
                await talk(asked["port"])
                for one in together:
                    one.set_result(None)
            await met
            return {}
        case "fail":
            raise RuntimeError(await talk(asked["port"]))
"""


@asynccontextmanager
async def echoing() -> AsyncGenerator[int, None]:
    """A server on loopback that repeats each line."""

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for line in reader:
                writer.write(line)
        finally:
            writer.close()

    server = await asyncio.start_server(repeat, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def operating(home: Home, tmp_path: Path) -> AsyncGenerator[Callable[[str], Awaitable[Any]], None]:
    """What calls the operator, on a host of its own."""
    async with echoing() as port:
        take(home, kernel(tmp_path / "p", "operator", CODE, (f"net:127.0.0.1:{port}",)), "Our.Thing")
        async with opened(home) as host:

            async def call(do: str) -> Any:
                return (await patiently(host.call("Our.Thing", {"do": do, "port": port})))["result"]

            yield call


def flags(home: Home) -> list[Any]:
    """What is flagged of each call, oldest first."""
    return [one["undisclosed"] for one in recorded(home, "call.ended")]


@pytest.mark.req("K-10", "network")
async def test_a_connection_of_its_own_flags_a_call_whose_answer_does_not_disclose_it(
    home: Home, tmp_path: Path
) -> None:
    async with operating(home, tmp_path) as call:
        for do in ("talk", "disclose", "deny"):
            assert await call(do) == {"heard": "hello"}
        assert await call("nothing") == {}

    assert flags(home) == [["network"], None, ["network"], None]
    assert [one["metrics"].get("asked") for one in recorded(home, "call.ended")] == [{"net": 1}] * 3 + [None]


async def test_an_open_connection_counts_for_the_calls_that_use_it_and_for_no_other(home: Home, tmp_path: Path) -> None:
    async with operating(home, tmp_path) as call:
        for do in ("keep", "nothing", "use"):
            await call(do)

    assert flags(home) == [["network"], None, ["network"]]


async def test_a_connection_counts_for_every_call_under_way_in_its_process(home: Home, tmp_path: Path) -> None:
    async with operating(home, tmp_path) as call:
        await asyncio.gather(call("together"), call("together"))

    assert flags(home) == [["network"], ["network"]]


WEB = """
from paddock_sdk import Host, Plugin
plugin = Plugin({name!r}, {version!r})

@plugin.tool
def look(url: str, host: Host):
    return {{"body": host.http.fetch(url).wait()["body"]}}

@plugin.tool
def declared(url: str, host: Host):
    return look(url, host)

@plugin.tool
def aside(url: str, host: Host):
    plugin._active = None  # so that what it asks for names no call
    return look(url, host)

@plugin.tool
def disclosed(url: str, host: Host):
    return look(url, host) | {{"nondeterminism": {{"is_nondeterministic": True, "reasons": ["web_content"]}}}}

plugin.run()
"""
TOOLS = [
    tool("look", "read_only"),
    tool("declared", "external_call"),
    tool("aside", "read_only"),
    tool("disclosed", "read_only"),
]


@pytest.mark.req("K-10", "network")
async def test_what_the_host_fetched_for_a_call_is_disclosed_by_its_answer_or_its_manifest_or_flagged(
    home: Home,
) -> None:
    async with serving(None, page=reply(body=b"hello", content_type="text/plain")) as server:
        granted = ["host:http", f"net:127.0.0.1:{server.port}"]
        home.install("web", program=WEB, tools=TOOLS, capabilities=granted)
        write_file(home.path / "policies" / "unasked.cedar", UNASKED).chmod(0o600)
        async with open_host(Config(home=home.path, environ={})) as host:
            for one in TOOLS:
                made = host.call(f"web.{one['name']}", {"url": f"http://127.0.0.1:{server.port}/page"})
                assert (await patiently(made))["body"] == "hello"

    flagged = {one["method"]: one["undisclosed"] for one in recorded(home, "call.ended")}
    assert flagged == {"look": ["network"], "declared": None, "aside": ["network"], "disclosed": None}


# Speaks for itself: it asks for a page in no call's name, and answers before it has it.
HASTY = """
import json, sys

asked = []

def say(**message):
    print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)

for line in sys.stdin:
    heard = json.loads(line)
    match heard.get("method"):
        case "initialize":
            told = dict.fromkeys(("notifications", "capabilities_used", "features"), [])
            told |= {{"name": {name!r}, "version": {version!r}, "api_version": 1, "methods": []}}
            say(id=heard["id"], result=told)
        case "hasty.ask":
            asked.append(heard["id"])
            say(id=1, method="paddock.http.fetch", params={{"request": {{"url": heard["params"]["url"]}}}})
        case "hasty.answer":
            for number in (*asked, heard["id"]):
                say(id=number, result={{}})
        case _ if "id" in heard and "method" in heard:
            say(id=heard["id"], result={{"status": "ok"}})
"""


async def test_a_page_that_is_still_on_its_way_counts_for_a_call_that_is_answered_meanwhile(home: Home) -> None:
    async with serving(None, page=silent) as server:
        granted = ["host:http", f"net:127.0.0.1:{server.port}"]
        tools = [tool("ask", "read_only"), tool("answer", "read_only")]
        home.install("hasty", program=HASTY, tools=tools, capabilities=granted)
        async with open_host(Config(home=home.path, environ={})) as host, asyncio.timeout(20):
            asking = asyncio.create_task(host.call("hasty.ask", {"url": f"http://127.0.0.1:{server.port}/page"}))
            await asyncio.wait({asking, asyncio.ensure_future(server.heard.wait())}, return_when="FIRST_COMPLETED")
            await host.call("hasty.answer", {})
            await asking

    flagged = {one["method"]: one["undisclosed"] for one in recorded(home, "call.ended")}
    assert flagged == {"ask": ["network"], "answer": None}


@pytest.mark.req("K-10", "model")
@pytest.mark.parametrize(
    ("answer", "flagged"),
    [
        ({"metrics": {"tokens_in": 1200, "tokens_out": 380}}, ["model"]),
        ({"metrics": {"tokens_out": 3}, "nondeterminism": {"is_nondeterministic": False}}, ["model"]),
        ({"metrics": {"tokens_out": 3}, "nondeterminism": {"is_nondeterministic": True}}, None),
        (
            {"metrics": {"tokens_out": 3}, "nondeterminism": {"is_nondeterministic": True, "reasons": ["x" * 9000]}},
            None,
        ),
        ({"metrics": {"tokens_out": 3}, "randomness_disclosure": {"temperature": 0.7}}, None),
        ({"metrics": {"tokens_in": 0, "tokens_out": "many", "latency_ms": 4}}, None),
        ({"tokens_in": 3}, None),
    ],
)
async def test_an_answer_that_counts_the_tokens_of_a_model_says_that_it_may_come_out_otherwise_or_is_flagged(
    tmp_path: Path, answer: dict[str, Any], flagged: list[str] | None
) -> None:
    office = Office(tmp_path)
    office.functions["look"] = lambda: answer
    async with office.open() as host:
        await host.call("mail.look", {}, context=made_by(ANN))
    (entry,) = office.calls()

    assert entry["undisclosed"] == flagged


async def test_a_call_that_failed_has_no_answer_to_disclose_anything_of(home: Home, tmp_path: Path) -> None:
    async with operating(home, tmp_path) as call:
        with pytest.raises(PluginError):
            await call("fail")

    (ended,) = recorded(home, "call.ended")
    assert (ended["status"], ended["metrics"]["asked"], ended["undisclosed"]) == ("failed", {"net": 1}, None)
