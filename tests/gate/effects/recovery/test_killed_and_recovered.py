"""A host is killed in the middle of an effect, and the next one finds out what became of it as the plugin declares."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.counting import SOON
from tests.gate.test_governed_calls import ANN, made_by
from tests.host.conftest import Home
from tests.runtimes.test_python_code import kernel

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Answer, Daemon, daemon, eventually
from fixtures.packages import native, write_file, write_json
from paddock import Config, open_host
from paddock.core.errors import Busy, Conflict, PaddockError, Unavailable
from paddock.gate.effects import outcomes
from paddock.host.host import Host
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import list_entries
from paddock.plugins.manage.enable import enable
from paddock.queue import leases, node
from paddock.store.database import open_direct

# What happens outside is a line in a file with the key that it happened under. The other side of `native_key` knows its
# keys; the others add a line each time they are asked.
PROGRAM = """
import os, time
from pathlib import Path
from paddock_sdk import Plugin

plugin = Plugin("counter", "1.0.0", capabilities_used=["storage:write"])
OUTSIDE = Path({outside!r})

def pause(params, moment):
    if params.get("ends") != moment or (OUTSIDE / "begun").exists():
        return
    (OUTSIDE / "begun").touch()
    if params.get("by") == "crash":
        os._exit(1)
    while True:
        time.sleep(60)

def add(key):
    file = os.open(OUTSIDE / "happened", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (key + "\\n").encode())
    os.close(file)

def happened(key):
    return (OUTSIDE / "happened").exists() and key in (OUTSIDE / "happened").read_text().split()

@plugin.tool
def by_none(params, context):
    pause(params, "before")
    add(context.idempotency_key)
    pause(params, "after")
    return {{"done": context.idempotency_key}}

@plugin.tool
def by_probe(params, context):
    return by_none(params, context)

@plugin.tool
def look(params, context):
    found = happened(params["idempotency_key"])
    return {{"happened": found, "result": {{"done": params["idempotency_key"]}}}} if found else {{"happened": False}}

@plugin.tool
def by_native_key(params, context):
    pause(params, "before")
    if not happened(context.idempotency_key):
        add(context.idempotency_key)
    pause(params, "after")
    return {{"done": context.idempotency_key}}

@plugin.tool
def by_atomic(params, context):
    plugin.storage.exec("CREATE TABLE IF NOT EXISTS happened (key TEXT)")
    with plugin.storage.transaction() as tables:
        tables.exec("INSERT INTO happened VALUES (?)", [context.idempotency_key])
        tables.answers({{"done": context.idempotency_key}})
        pause(params, "before")
    pause(params, "after")
    return {{"done": context.idempotency_key}}

@plugin.tool
def count(params, context):
    rows = plugin.storage.query("SELECT key FROM happened").rows if "happened" in plugin.storage.schema() else []
    written = (OUTSIDE / "happened").read_text().split() if (OUTSIDE / "happened").exists() else []
    return {{"keys": written + [row["key"] for row in rows]}}

plugin.run()
"""


def tool(name: str, *effects: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "effects": list(effects), "input_schema": {"type": "object"}} | more


TOOLS = [
    tool("by_none", "db_write"),
    tool("by_probe", "db_write", recovery="probe", probe="look"),
    tool("by_native_key", "db_write", recovery="native_key"),
    tool("by_atomic", "db_write", recovery="atomic"),
    tool("look", "read_only"),
    tool("count", "read_only"),
]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    return place


def declared(outside: Path, **of_tools: Any) -> dict[str, Any]:
    tools = [one | of_tools for one in TOOLS]
    return {"tools": tools, "capabilities": ["storage:write", f"write:fs:{outside}"]}


def installed(paddock: Paddock, folder: Path, outside: Path) -> None:
    runtime = {"command": ["python3", "./main.py"]}
    package = native(folder / "counter", "counter", runtime=runtime, **declared(outside))
    write_file(package / "main.py", PROGRAM.format(outside=str(outside)))
    paddock.quickly("plugin", "install", package, "--yes", "--grant", f"write:fs:{outside}")
    paddock.quickly("plugin", "enable", "counter", "--no-start")


def make(running: Daemon, way: str, moment: str) -> Answer:
    body = {"name": f"counter.by_{way}", "params": {"ends": moment}}
    return running.ask("POST", "/calls", body, Idempotency_Key="k1")


def killed_in_the_middle(running: Daemon, outside: Path, way: str, moment: str) -> None:
    """Make the call, and kill the daemon when its plugin is where it stands still."""

    def made() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            make(running, way, moment)

    caller = threading.Thread(target=made)
    caller.start()
    eventually((outside / "begun").exists, "the plugin works on the call")
    running.stop(signal.SIGKILL)
    caller.join(PATIENCE)
    assert not caller.is_alive()


def keys(running: Daemon) -> list[str]:
    answer = running.ask("POST", "/calls", {"name": "counter.count", "params": {}})
    return answer.body["result"]["keys"]


def told(home: Path) -> list[LedgerEntry]:
    """What the ledger says of effects, oldest first."""
    with open_direct(home / "data" / "paddock.db") as database:
        entries = database.read(lambda tx: list_entries(tx, newest_first=False, limit=1000))
    return [entry for entry in entries if entry.type.startswith("effect.")]


@pytest.mark.req("K-08", "in doubt")
@pytest.mark.parametrize(
    ("way", "moment"),
    [
        *[("atomic", "after"), ("native_key", "before"), ("probe", "after")],
        *(
            pytest.param(way, moment, marks=pytest.mark.slow)
            for way, moment in [("atomic", "before"), ("native_key", "after"), ("probe", "before")]
        ),
    ],
)
def test_an_effect_whose_daemon_was_killed_has_happened_once_when_the_next_one_answers(
    tmp_path: Path, outside: Path, way: str, moment: str
) -> None:
    paddock = Paddock(tmp_path / "home", more=SOON)
    installed(paddock, tmp_path, outside)
    with daemon(paddock) as running:
        killed_in_the_middle(running, outside, way, moment)

    answers: list[Answer] = []

    def known() -> bool:
        answers.append(make(running, way, moment))
        return answers[-1].status == 200

    with daemon(paddock) as running:
        eventually(known, "it is found out")
        happened = keys(running)

    assert answers[-1].body["result"] == {"done": "k1"}
    assert {answer.body["code"] for answer in answers[:-1]} <= {"effect.in_doubt"}
    assert happened == ["k1"]
    doubted, resolved = told(paddock.home)
    assert (doubted.type, doubted.data["recovery"]) == ("effect.in_doubt", way)
    assert (resolved.type, resolved.data["resolution"]) == ("effect.resolved", way)
    had_happened = moment == "after" or way == "native_key"  # asked again, its other side makes what it had not
    assert resolved.data["state"] == ("succeeded" if had_happened else "failed_no_effect")


@pytest.mark.req("K-08", "in doubt")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_nobody_can_find_out_waits_for_a_person(tmp_path: Path, outside: Path, moment: str) -> None:
    paddock = Paddock(tmp_path / "home", more=SOON)
    installed(paddock, tmp_path, outside)
    with daemon(paddock) as running:
        killed_in_the_middle(running, outside, "none", moment)

    with daemon(paddock) as running:
        assert make(running, "none", moment).body["code"] == "effect.in_doubt"
        (doubt,) = paddock("call", "unresolved", "list", "--json").json["doubts"]
        word = ["--happened", "--result", '{"done": "k1"}'] if moment == "after" else ["--not-happened", "--yes"]
        paddock("call", "unresolved", "resolve", doubt["call_id"], *word)

        assert make(running, "none", moment).body["result"] == {"done": "k1"}
        assert keys(running) == ["k1"]
    assert [entry.data.get("resolution") for entry in told(paddock.home)] == [None, "human"]


# --- on a host in this process --------------------------------------------------------------------------------------

COMMAND = """
import asyncio, sys
from pathlib import Path
from paddock import Config, open_host

async def main():
    async with open_host(Config(home=Path(sys.argv[1]), environ={}, role="command", start="nothing")) as host:
        await host.call(sys.argv[2], {"ends": "after"}, idempotency_key="k1")

asyncio.run(main())
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def once_known(call: Callable[[], Any]) -> Any:
    """What is answered once the effect is not in doubt any more, and its plugin runs again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await call()
            except (Conflict, Busy, Unavailable) as error:
                assert isinstance(error, Unavailable) or error.error_code in ("effect.in_doubt", "effect.underway")
                await asyncio.sleep(0.02)


async def counted(host: Host) -> list[str]:
    return (await once_known(lambda: host.call("counter.count", {}, context=made_by(ANN))))["keys"]


@pytest.mark.parametrize("way", [pytest.param("atomic", marks=pytest.mark.slow), "probe"])
async def test_what_a_killed_command_had_begun_is_found_out_by_the_daemon_once_its_lease_is_over(
    home: Home, outside: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    home.install("counter", program=PROGRAM.replace("{outside!r}", repr(str(outside))), **declared(outside))
    name = f"counter.by_{way}"
    command = await asyncio.create_subprocess_exec(sys.executable, "-c", COMMAND, str(home.path), name)
    await asyncio.to_thread(eventually, (outside / "begun").exists, "the plugin works on the call")
    command.kill()
    await command.wait()
    monkeypatch.setattr(leases, "LEASE_S", 0.5)
    monkeypatch.setattr(node, "HEARTBEAT_INTERVAL_S", 0.1)

    async with open_host(Config(home=home.path, environ={})) as host:
        answer = await once_known(lambda: host.call(name, {"ends": "after"}, idempotency_key="k1"))
        assert answer == {"done": "k1"}
        assert await counted(host) == ["k1"]
    assert [entry.data.get("resolution") for entry in told(home.path)] == [None, way]


@pytest.mark.parametrize(
    ("way", "ends"),
    [
        *[("native_key", "crash"), ("atomic", "timeout"), ("probe", "cancel")],
        *(
            pytest.param(way, ends, marks=pytest.mark.slow)
            for way, ends in [("atomic", "crash"), ("probe", "crash"), ("native_key", "timeout"), ("atomic", "cancel")]
        ),
    ],
)
async def test_an_effect_that_got_no_answer_is_found_out_while_its_host_goes_on(
    home: Home, outside: Path, monkeypatch: pytest.MonkeyPatch, way: str, ends: str
) -> None:
    monkeypatch.setattr(outcomes, "_STOP_GRACE", outcomes._STOP_GRACE / 100)
    soon = {"timeout_sec": 2} if ends == "timeout" else {}
    home.install("counter", program=PROGRAM.replace("{outside!r}", repr(str(outside))), **declared(outside, **soon))
    params = {"ends": "after", "by": ends}
    async with open_host(Config(home=home.path, environ={})) as host:

        async def make() -> Any:
            return await host.call(f"counter.by_{way}", params, context=made_by(ANN), idempotency_key="k1")

        first = asyncio.ensure_future(make())
        if ends == "cancel":
            await asyncio.to_thread(eventually, (outside / "begun").exists, "the plugin works on the call")
            first.cancel()
        with pytest.raises((PaddockError, asyncio.CancelledError)):
            await first

        assert await once_known(make) == {"done": "k1"}
        assert await counted(host) == ["k1"]
    assert [entry.data.get("resolution") for entry in told(home.path)] == [None, way]


@pytest.mark.slow
async def test_what_a_call_has_noted_as_its_answer_has_to_be_what_was_promised(home: Home, outside: Path) -> None:
    """Else a person says what came of it: that it has happened is certain."""
    promised = {"type": "object", "properties": {"done": {"type": "integer"}}}
    tools = declared(outside)
    tools["tools"] = [one | ({"output_schema": promised} if one["name"] == "by_atomic" else {}) for one in TOOLS]
    home.install("counter", program=PROGRAM.replace("{outside!r}", repr(str(outside))), **tools)

    def is_refused() -> bool:
        with open_direct(home.path / "data" / "paddock.db") as database:
            rows = database.read(lambda tx: tx.all("SELECT reason FROM queue WHERE key <> 'old'"))  # but for forgetting
        return [row["reason"] for row in rows] == ["output_validation_error"]

    async with open_host(Config(home=home.path, environ={})) as host:
        for _ in range(2):
            with pytest.raises(PaddockError) as said:
                params = {"ends": "after", "by": "crash"}
                await host.call("counter.by_atomic", params, context=made_by(ANN), idempotency_key="k1")
            await asyncio.to_thread(eventually, is_refused, "the host has looked")
        assert said.value.error_code == "effect.in_doubt"
        assert await counted(host) == ["k1"]


OPERATOR = """
import json, os
from pathlib import Path

OUTSIDE = Path({outside!r})

def run(call):
    with open(OUTSIDE / "told", "a") as told:
        told.write(json.dumps(call["policy_snapshot"]) + "\\n")
    if not (OUTSIDE / "begun").exists():
        (OUTSIDE / "begun").touch()
        os._exit(1)
    return {{"status": "succeeded", "result": {{}}}}
"""


async def test_an_operator_is_told_what_the_rules_say_also_when_a_lost_call_is_made_again(
    home: Home, tmp_path: Path, outside: Path
) -> None:
    package = kernel(tmp_path / "works", "operator", OPERATOR.format(outside=str(outside)), (f"write:fs:{outside}",))
    about = json.loads((package / "manifest.json").read_text())
    write_json(package / "manifest.json", about | {"effects": ["db_write"], "recovery": "native_key"})
    home.take(package)
    home.changing(lambda plugins: enable(plugins, about["name"]))
    async with open_host(Config(home=home.path, environ={})) as host:

        async def make() -> Any:
            return await host.call(about["name"], {}, context=made_by(ANN), idempotency_key="k1")

        with pytest.raises(PaddockError):
            await make()
        await once_known(make)
    first, again = [json.loads(line) for line in (outside / "told").read_text().splitlines()]
    assert first == again
    assert again["decision"] == "allow" and again["policies"]
