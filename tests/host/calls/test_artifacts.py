"""Big bytes between real plugins in real cages: equal at the other end, quick for others, and lies harm the liar."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.cage.warm.warming import is_warm
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from fixtures.ledger_entries import list_recent
from paddock import Config, Host, open_host
from paddock.capabilities.pipes import channel, incoming_transfer
from paddock.plugins.manage.remove import uninstall
from paddock.store.database import open_direct

MB = 1_000_000
ANY = {"type": "object"}

# `make` and `read` are honest. `raw` sends what it is told, and tells what the host says to each question.
PROGRAM = """
import hashlib, os, struct
from paddock_sdk import HostRefused, Plugin
plugin = Plugin({name!r}, {version!r}, capabilities_used=["host:artifacts"])
def asked(method, **params):
    try:
        return plugin.request("paddock.artifacts." + method, params)
    except HostRefused as refused:
        return {{"code": refused.data["code"], "message": refused.message}}
def frame(stream, content):
    data = struct.pack(">II", stream, len(content)) + content
    while data:
        data = data[os.write(4, data):]
@plugin.tool
def make(params, context):
    content = os.urandom(1000) * (params["size"] // 1000)
    with open("/tmp/made", "wb") as file:
        file.write(content)
    uri = plugin.host.artifacts.put("/tmp/made", "application/x-made").wait()
    return {{"uri": uri, "sha256": hashlib.sha256(content).hexdigest()}}
@plugin.tool
def read(params, context):
    content = plugin.host.artifacts.get(params["uri"]).wait()
    whole, pieces = hashlib.sha256(), 0
    for piece in plugin.host.artifacts.open(params["uri"]):
        whole.update(piece)
        pieces += 1
    part = plugin.host.artifacts.get(params["uri"], 1000, 3000).wait()
    return {{"sha256": hashlib.sha256(content).hexdigest(), "streamed": whole.hexdigest(), "pieces": pieces,
            "part": part == content[1000:4000]}}
@plugin.tool
def raw(params, context):
    told = []
    for what, given in params["steps"]:
        if what == "frame":
            stream, letter, count = given
            frame(stream, letter.encode() * count)
        elif what == "bytes":
            try: os.write(4, bytes.fromhex(given) * 100)
            except BrokenPipeError: told.append("closed")
        elif what == "flood":
            try:
                for _ in range(given): frame(99, bytes(65536))
            except BrokenPipeError: told.append("closed")
        elif what == "take":
            left = given
            while left: left -= len(os.read(3, left))
        elif what == "backwards":
            told.append(asked("get", uri=given[::-1], inline=True))
        else:
            told.append(asked(what, **given))
    return {{"told": told}}
@plugin.tool
def look(params, context):
    return {{"open": len(os.listdir("/proc/self/fd"))}}
plugin.run()
"""
TOOLS = [
    {"name": name, "description": name, "effects": ["read_only"], "input_schema": ANY}
    for name in ("make", "read", "raw", "look")
]
GRANTED = ["host:artifacts"]


@pytest.fixture
async def host(home: Home) -> AsyncGenerator[Host, None]:
    for name in ("maker", "reader"):
        home.install(name, program=PROGRAM, tools=TOOLS, capabilities=GRANTED)
    home.install("bystander")
    async with open_host(Config(home=home.path, environ={})) as opened:
        await opened.plugins.processes.wait_settled()
        yield opened


async def steps(host: Host, *given: tuple[str, Any], plugin: str = "maker") -> list[Any]:
    return (await patiently(host.call(f"{plugin}.raw", {"steps": [list(step) for step in given]})))["told"]


def codes(told: list[Any]) -> list[str]:
    return [one.get("code", "fine") if isinstance(one, dict) else one for one in told]


def recorded(home: Home, kind: str) -> list[Any]:
    with open_direct(home.path / "data" / "paddock.db") as database:
        return [event for event in database.read(list_recent) if event.type == kind]


async def violation(host: Host, home: Home) -> Any:
    """The one that was recorded; events are written a moment after they happened."""
    async with asyncio.timeout(30):
        while not (found := recorded(home, "plugin.protocol_violation")):
            await quick(host)
    (one,) = found
    return one


def drafts(home: Home) -> list[Path]:
    return list((home.path / "data" / "artifacts" / "drafts").glob("*"))


async def quick(host: Host) -> float:
    began = time.monotonic()
    assert (await patiently(host.call("bystander.say", {"text": "hello"})))["text"] == "hello"
    return time.monotonic() - began


async def pid_of(host: Host, plugin: str) -> int:
    return next(
        status.pid
        for status in await host.plugins.processes.wait_settled()
        if status.key.plugin == plugin and status.pid
    )


@pytest.mark.req("G-32", "binary data")
@pytest.mark.parametrize("way", [pytest.param("cold", marks=pytest.mark.slow), "warm"])
async def test_twenty_megabytes_arrive_as_they_were_while_other_calls_stay_quick(host: Host, way: str) -> None:
    async with asyncio.timeout(60):
        while is_warm(await pid_of(host, "maker")) != (way == "warm"):
            await host.plugins.lifecycle.disable("maker")
            await host.plugins.lifecycle.enable("maker")
    making = asyncio.ensure_future(patiently(host.call("maker.make", {"size": 20 * MB})))
    waited = [await quick(host)]
    while not making.done():
        waited.append(await quick(host))
    made = making.result()
    assert made["uri"] == f"artifact://sha256/{made['sha256']}"
    assert sorted(waited)[len(waited) // 2] < 0.25
    # Its address is all that goes from plugin to plugin.
    got = await patiently(host.call("reader.read", {"uri": made["uri"]}))
    assert got == {"sha256": made["sha256"], "streamed": made["sha256"], "pieces": 20, "part": True}


@pytest.mark.slow
async def test_an_address_that_no_payload_names_is_of_no_use_to_another_plugin(host: Host) -> None:
    made = await patiently(host.call("maker.make", {"size": MB}))
    get = ("get", {"uri": made["uri"], "inline": True})
    assert codes(await steps(host, get, plugin="reader")) == ["fine"], "handed over in the payload"
    # Spelled backwards the payload does not name it; the plugin could have found it anywhere.
    found = ("backwards", made["uri"][::-1])
    assert codes(await steps(host, found, plugin="reader")) == ["artifacts.unknown"]
    assert codes(await steps(host, found, plugin="maker")) == ["fine"]


async def test_a_plugin_without_the_grant_has_no_pipes_and_is_refused_and_recorded(home: Home) -> None:
    modest = PROGRAM.replace(', capabilities_used=["host:artifacts"]', "")
    home.install("poor", program=modest, tools=TOOLS, capabilities=[])
    async with open_host(Config(home=home.path, environ={})) as host:
        seen = await patiently(host.call("poor.look", {}))
        # The SDK has copies of its streams beside them.
        assert (await steps(host, ("put", {"base64": ""}), plugin="poor"))[0]["code"] == "capability_denied"
        before = seen["open"]
    home.install("rich", program=PROGRAM, tools=TOOLS, capabilities=GRANTED)
    async with open_host(Config(home=home.path, environ={})) as host:
        assert (await patiently(host.call("rich.look", {})))["open"] == before + 2
    (denied,) = recorded(home, "plugin.capability_denied")
    assert denied.data["method"] == "artifacts.put"


@pytest.mark.parametrize(
    ("announced", "sent", "code"),
    [
        ({"size": 10}, [("frame", [1, "a", 20])], "artifacts.size_mismatch"),
        pytest.param(
            *({"size": 10}, [("frame", [1, "a", 10]), ("frame", [1, "a", 1])], "artifacts.size_mismatch"),
            marks=pytest.mark.slow,
        ),
        pytest.param({"size": 20}, [("frame", [1, "a", 10])], "artifacts.size_mismatch", marks=pytest.mark.slow),
        ({"size": 10, "sha256": "0" * 64}, [("frame", [1, "a", 10])], "artifacts.hash_mismatch"),
        ({"size": 10}, [("frame", [1, "a", 4]), ("frame", [1, "b", 6])], "fine"),
    ],
)
async def test_what_differs_from_what_was_announced_is_not_kept_and_the_next_is(
    host: Host, home: Home, announced: dict[str, Any], sent: list[Any], code: str
) -> None:
    told = await steps(host, ("put", announced), *sent, ("frame", [1, "", 0]), ("commit", {"stream": 1}))
    assert codes(told) == ["fine", code]
    again = await steps(
        host, ("put", {"size": 3}), ("frame", [2, "x", 3]), ("frame", [2, "", 0]), ("commit", {"stream": 2})
    )
    assert again[1]["sha256"] == hashlib.sha256(b"xxx").hexdigest()
    assert codes(await steps(host, ("commit", {"stream": 1}))) == ["artifacts.unknown_stream"]
    await quick(host)


async def test_frames_of_several_transfers_may_alternate(host: Host) -> None:
    puts = [("put", {"size": 4}), ("put", {"size": 4})]
    frames = [("frame", [1 + number % 2, "ab"[number % 2], 1]) for number in range(8)]
    ends = [("frame", [1, "", 0]), ("frame", [2, "", 0])]
    told = await steps(host, *puts, *frames, *ends, ("commit", {"stream": 2}), ("commit", {"stream": 1}))
    assert [one["sha256"] for one in told[2:]] == [hashlib.sha256(text).hexdigest() for text in (b"bbbb", b"aaaa")]


@pytest.mark.parametrize(
    "step", [pytest.param(("flood", 200), marks=pytest.mark.slow), ("bytes", "ff" * 8)], ids=["a flood", "no frames"]
)
async def test_a_plugin_that_sends_what_nobody_waits_for_loses_its_pipes_and_nothing_else(
    host: Host, home: Home, step: tuple[str, Any]
) -> None:
    await steps(host, step)
    async with asyncio.timeout(30):
        while codes(await steps(host, ("put", {"size": 5}))) != ["artifacts.channel_closed"]:
            pass
    assert codes(await steps(host, ("put", {"base64": "aGVsbG8="}))) == ["fine"], "in a message it still may"
    assert await quick(host) < 5
    assert codes(await steps(host, ("put", {"size": 5}), plugin="reader")) == ["fine"]
    assert (await violation(host, home)).data["violation_type"] == "artifacts"


async def test_a_plugin_that_stops_half_way_is_given_up_and_leaves_no_file(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_transfer, "IDLE_TIMEOUT_S", 0.3)
    home.install("maker", program=PROGRAM, tools=TOOLS, capabilities=GRANTED)
    async with open_host(Config(home=home.path, environ={})) as host:
        half = [("put", {"size": 2 * MB}), ("frame", [1, "a", MB])]
        told = await steps(host, *half, ("commit", {"stream": 1}))
        assert codes(told) == ["fine", "artifacts.stalled"]
        await steps(host, ("put", {"size": 2 * MB}), ("frame", [2, "a", MB]))
    assert drafts(home) == []
    assert [path for path in (home.path / "data" / "artifacts").rglob("*") if path.is_file()] == []


@pytest.mark.slow
async def test_a_plugin_that_does_not_read_what_it_asked_for_loses_its_pipes_and_nothing_else(
    host: Host, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "STALL_TIMEOUT_S", 1.0)
    uri = (await patiently(host.call("maker.make", {"size": 5 * MB})))["uri"]
    told = await steps(host, *[("get", {"uri": uri})] * (channel.MAX_STREAMS + 1))
    assert codes(told) == ["fine"] * channel.MAX_STREAMS + ["artifacts.busy"]
    assert await quick(host) < 5
    async with asyncio.timeout(30):
        while codes(await steps(host, ("get", {"uri": uri}))) != ["artifacts.channel_closed"]:
            pass
    part = (await steps(host, ("get", {"uri": uri, "inline": True, "length": 10})))[0]
    assert (part["size"], part["total_size"]) == (10, 5 * MB)
    assert "was not read" in (await violation(host, home)).data["detail"]


@pytest.mark.req("O-09", "size limit")
async def test_more_than_the_setting_allows_is_refused_before_a_byte_is_sent(home: Home) -> None:
    home.install("maker", program=PROGRAM, tools=TOOLS, capabilities=GRANTED)
    environ = {"PADDOCK_ARTIFACTS_MAX_SIZE_MB": "1"}
    async with open_host(Config(home=home.path, environ=environ)) as host:
        (told,) = await steps(host, ("put", {"size": (1 << 20) + 1}))
        assert told["code"] == "artifacts.too_large"
        assert codes(await steps(host, ("put", {"size": 1 << 20}))) == ["fine"]


async def test_uninstalling_takes_the_artifacts_along(home: Home) -> None:
    home.install("maker", program=PROGRAM, tools=TOOLS, capabilities=GRANTED)
    async with open_host(Config(home=home.path, environ={})) as host:
        made = await patiently(host.call("maker.make", {"size": MB}))
    kept = home.path / "data" / "artifacts" / "of-default" / made["sha256"][:2] / made["sha256"]
    assert kept.stat().st_size == MB
    home.changing(lambda plugins: uninstall(plugins, "maker"))
    async with open_host(Config(home=home.path, environ={})) as host:
        await host.plugins.lifecycle.reconcile()
    assert not kept.exists()


ASYNC_PROGRAM = """
import asyncio, io, os
from paddock_sdk import Host
async def both(host: Host):
    contents = [os.urandom(1000) * size for size in (3000, 2000, 1)]
    one, two, three = contents
    uris = await asyncio.gather(
        host.artifacts.put(one, "text/plain"), host.artifacts.put(io.BytesIO(two)), host.artifacts.put(three))
    back = await asyncio.gather(*[host.artifacts.get(uri) for uri in uris])
    pieces = [piece async for piece in host.artifacts.open(uris[0])]
    waited = host.artifacts.get(uris[1], 5, 100).wait()
    return {{"equal": list(back) == contents, "streamed": b"".join(pieces) == one, "waited": waited == two[5:105],
            "deleted": [await host.artifacts.delete(uri) for uri in uris]}}
"""
FORKED_PROGRAM = """
import hashlib
from paddock_sdk import CapabilityDenied, Host
def both(uris: list[str], host: Host):
    try:
        host.artifacts.put(b"for the next call").wait()
    except CapabilityDenied as denied:
        refused = denied.message
    got = [host.artifacts.get(uri).wait() for uri in uris]
    return {{"sha256": [hashlib.sha256(content).hexdigest() for content in got], "refused": refused}}
"""
BOTH = [{"name": "both", "description": "Put and get", "effects": ["read_only"], "input_schema": ANY}]


async def test_code_that_the_host_imports_moves_several_at_once_and_waits_as_it_likes(home: Home) -> None:
    runtime = {"python": {"both": "main:both"}}
    home.install("mover", program=ASYNC_PROGRAM, tools=BOTH, capabilities=GRANTED, runtime=runtime)
    async with open_host(Config(home=home.path, environ={})) as host:
        got = await patiently(host.call("mover.both", {}))
    assert got == {"equal": True, "streamed": True, "waited": True, "deleted": [True, True, True]}


@pytest.mark.slow
async def test_an_agent_reads_in_messages_what_its_call_was_handed_and_keeps_none_itself(home: Home) -> None:
    runtime = {"python": {"both": "main:both"}}
    home.install("maker", program=PROGRAM, tools=TOOLS, capabilities=GRANTED)
    home.install("thinker", program=FORKED_PROGRAM, tools=BOTH, capabilities=GRANTED, runtime=runtime, kind="agent")
    async with open_host(Config(home=home.path, environ={})) as host:
        made = [await patiently(host.call("maker.make", {"size": size})) for size in (MB // 10, 5 * MB)]
        got = await patiently(host.call("thinker.both", {"uris": [one["uri"] for one in made]}))
    assert got["sha256"] == [one["sha256"] for one in made]
    assert "thinker is of kind agent and may not ask for artifacts.put" in got["refused"]
