"""A call does to the world what it declares and nothing else: a caged plugin's own tables, through a whole host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.authoring.workbench import at_work
from tests.host.conftest import Home

from paddock import Config, open_host
from paddock.cli.output.explanation_text import explanation_lines
from paddock.core.errors import PluginError
from paddock.host.host import Host
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import list_entries
from paddock.store.database import open_direct
from paddock_sdk import Host as SdkHost
from paddock_sdk import Plugin
from paddock_sdk.faults import PluginFault
from paddock_sdk.testing import FakeHost, PluginTester

PROGRAM = """
from paddock_sdk import Host, Plugin
plugin = Plugin({name!r}, {version!r}, capabilities_used=["storage:write", "host:storage", "host:cache"])

@plugin.tool
def write(host: Host):
    host.sql.exec("CREATE TABLE IF NOT EXISTS t (a)").wait()
    host.sql.exec("INSERT INTO t VALUES (1)").wait()
    return {{"rows": host.sql.query("SELECT count(*) AS n FROM t").wait().rows[0]["n"]}}

@plugin.tool
def peek(host: Host):
    return write(host)

@plugin.tool
def keep(host: Host):
    host.keyvalue.put("k", 1).wait()
    return {{}}

@plugin.tool
def count(host: Host):
    return {{"rows": host.sql.query("SELECT count(*) AS n FROM t").wait().rows[0]["n"]}}

@plugin.tool
def aside(host: Host):
    plugin._active = None  # so that what it asks for names no call
    for _ in range(3):
        host.cache.get("k").wait()
    return {{}}

@plugin.tool
def sneak(host: Host):
    plugin._active = None
    host.keyvalue.put("k", 1).wait()
    return {{}}

plugin.run()
"""
GRANTED = ["storage:write", "host:storage", "host:cache"]


def tool(name: str, effect: str) -> dict[str, Any]:
    return {"name": name, "description": name, "effects": [effect], "input_schema": {"type": "object"}}


TOOLS = [
    tool("write", "db_write"),
    tool("peek", "read_only"),
    tool("keep", "read_only"),
    tool("count", "read_only"),
    tool("aside", "read_only"),
    tool("sneak", "read_only"),
]


def entries(home: Home, *types: str) -> list[LedgerEntry]:
    """What the ledger has of these types, oldest first."""
    with open_direct(home.path / "data" / "paddock.db") as database:
        found = database.read(lambda tx: list_entries(tx, newest_first=False, limit=1000))
    return [entry for entry in found if entry.type in types]


def recorded(home: Home, *types: str) -> list[dict[str, Any]]:
    """The same, without all that every entry has."""
    return [entry.data for entry in entries(home, *types)]


async def refused(host: Host, name: str) -> PluginError:
    with pytest.raises(PluginError) as error:
        await host.call(name, {})
    return error.value


@pytest.fixture
def notes(home: Home) -> Home:
    home.install("notes", program=PROGRAM, tools=TOOLS, capabilities=GRANTED)
    return home


@pytest.mark.req("K-09", "an undeclared one cannot happen")
@pytest.mark.req("K-09", "the attempt is recorded")
async def test_a_call_that_says_it_only_reads_cannot_write_and_the_attempt_is_on_record(notes: Home) -> None:
    async with open_host(Config(home=notes.path, environ={})) as host:
        assert (await host.call("notes.write", {}))["rows"] == 1
        tables, values = await refused(host, "notes.peek"), await refused(host, "notes.keep")
        assert (await host.call("notes.count", {}))["rows"] == 1, "nothing was written"
        log = [entry["line"] for entry in await host.plugins.logs.read_last("notes")]
        version = host.policy.active.policy.version

    assert (tables.error_code, values.error_code) == ("storage_access_denied", "capability_denied")
    assert "does not declare this effect" in tables.message
    first, second = recorded(notes, "plugin.capability_denied")
    assert (first["method"], first["capability"]) == ("storage.exec", "storage:write")
    assert (second["method"], second["capability"]) == ("keyvalue.put", "host:storage")
    calls = {entry["method"]: entry for entry in recorded(notes, "call.ended")}
    for denied, call in ((first, calls["peek"]), (second, calls["keep"])):
        assert (denied["policies"], denied["policy_version"]) == (["no-undeclared-effects"], version)
        assert denied["request_id"] == call["request_id"]
        assert call["status"] == "failed"
    # An empty table where there is none is no effect.
    assert (calls["peek"]["metrics"], calls["keep"]["metrics"]) == ({"asked": {"storage.define": 1}}, {})
    assert "[paddock] refused: storage.exec (forbidden: no-undeclared-effects)" in log


@pytest.mark.req("K-09", "an undeclared one cannot happen")
async def test_a_call_that_only_reads_cannot_write_by_leaving_out_which_call_it_is(notes: Home) -> None:
    async with open_host(Config(home=notes.path, environ={})) as host:
        error = await refused(host, "notes.sneak")
    (written,) = entries(notes, "plugin.capability_denied")
    async with open_host(Config(home=notes.path, environ={})) as host:
        (explained,) = await host.policy.explanations.explain(written.id, host.operator_context("me").principal)

    words = "It names no call that this is for, and none of the calls that it works on declares this effect."
    assert words in error.message
    assert (written.data["method"], written.data["policies"]) == ("keyvalue.put", ["no-effects-beside-the-calls"])
    assert words in "\n".join(explanation_lines(explained.to_value()))


async def test_the_entry_of_a_call_counts_what_the_plugin_asked_of_the_host_in_it(notes: Home) -> None:
    async with open_host(Config(home=notes.path, environ={})) as host:
        await host.call("notes.write", {})
        await host.call("notes.count", {})

    wrote, read = recorded(notes, "call.ended")
    assert wrote["metrics"]["asked"] == {"storage.define": 1, "storage.exec": 1, "storage.query": 1}
    assert read["metrics"]["asked"] == {"storage.query": 1}
    assert recorded(notes, "plugin.asked") == []


async def test_what_names_no_call_is_recorded_as_of_the_plugins_own_accord(notes: Home) -> None:
    async with open_host(Config(home=notes.path, environ={})) as host:
        await host.call("notes.aside", {})

    asked = recorded(notes, "plugin.asked")
    assert [(entry["name"], entry["method"], entry["count"], entry["underway"]) for entry in asked] == [
        ("notes", "cache.get", 1, True),
        ("notes", "cache.get", 2, True),
    ]
    (call,) = recorded(notes, "call.ended")
    assert call["metrics"] == {}


async def test_a_rule_of_ones_own_holds_for_what_plugins_ask_for_too(notes: Home) -> None:
    folder = notes.path / "policies"
    folder.mkdir(mode=0o700, parents=True)
    rule = 'forbid (principal == Plugin::"notes", action == Action::"use", resource) when { resource.writes };'
    (folder / "own.cedar").write_text(f'@id("notes-keeps-nothing") @text("Not here.")\n{rule}\n')
    (folder / "own.cedar").chmod(0o600)
    async with open_host(Config(home=notes.path, environ={})) as host:
        assert "Not here." in (await refused(host, "notes.write")).message

    (denied,) = recorded(notes, "plugin.capability_denied")
    assert denied["policies"] == ["notes-keeps-nothing"]


@pytest.mark.slow
async def test_an_author_is_told_of_an_undeclared_effect_in_the_words_that_users_would_be(
    notes: Home, tmp_path: Path
) -> None:
    plugin = Plugin("notes", "1.0.0", capabilities_used=["host:storage"])

    @plugin.tool
    def keep(host: SdkHost) -> dict[str, Any]:
        host.keyvalue.put("k", 1).wait()
        return {}

    assert callable(keep)
    fake = FakeHost(["host:storage"])
    with pytest.raises(PluginFault) as in_a_test:
        PluginTester(plugin, fake, effects={"keep": ["read_only"]}).call("keep")
    assert PluginTester(plugin, fake, effects={"keep": ["db_write"]}).call("keep") == {}
    async with open_host(Config(home=notes.path, environ={})) as host:
        at_the_host = await refused(host, "notes.keep")
    package = tmp_path / "packages" / "notes-1.0.0"
    async with at_work(package, tmp_path / "dev") as desk:
        await desk.session.run_command("keep {}")
        at_work_on_it = (await desk.told.event("failed"))["error"]

    assert fake.denied == ["keyvalue.put"]
    for told in (str(in_a_test.value), at_the_host.message, at_work_on_it["message"]):
        assert told.endswith("may not ask for keyvalue.put: The call that it serves does not declare this effect."), (
            told
        )
