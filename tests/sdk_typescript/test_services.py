"""A caged node program asks how often it may, leaves a word in the ledger, and says what it cannot repeat."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fixtures.packages import write_file, write_json
from tests.host.conftest import Home
from tests.sdk_typescript.node import SDK, needs_node
from tests.supervision.stage import patiently

from paddock import Config, open_host
from paddock.ledger.feed import recent
from paddock.plugins.enabling import enable
from paddock.store.database import open_direct

PROGRAM = """
import { createPlugin, disclose } from "./paddock-sdk/index.js";

const plugin = createPlugin({ name: "bell", version: "1.0.0", capabilitiesUsed: ["host:rate"] });
plugin.tool("remind", async ({ who }) => {
  const answer = await plugin.rate.limit("reminders", { cost: 40 });
  const written = answer.allowed && await plugin.audit.write("reminded", { who });
  return disclose({ ...answer, written }, ["time_of_day"], "high");
});
plugin.start();
"""
REMIND = {"name": "remind", "description": "Remind", "effects": ["db_write"], "input_schema": {"type": "object"}}
ABOUT = {"paddock": 1, "name": "bell", "version": "1.0.0", "description": "x", "tools": [REMIND]}


@needs_node
@pytest.mark.req("S-14")
@pytest.mark.req("S-19")
@pytest.mark.req("K-10", "disclosure helper")
async def test_a_plugin_keeps_to_its_rate_and_its_words_are_kept_with_the_call(tmp_path: Path) -> None:
    runtime = {"runtime": {"command": ["node", "./program.mjs"]}, "capabilities": ["host:rate"]}
    write_json(tmp_path / "package" / "paddock.yaml", ABOUT | runtime)
    write_file(tmp_path / "package" / "program.mjs", PROGRAM)
    shutil.copytree(SDK / "dist", tmp_path / "package" / "paddock-sdk")
    home = Home(tmp_path)
    home.take(tmp_path / "package")
    home.changing(lambda plugins: enable(plugins, "bell"))

    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        first = await patiently(host.call("bell.remind", {"who": "ann"}))
        second = await patiently(host.call("bell.remind", {"who": "bob"}))

    assert first["result"] == {"allowed": True, "retry_after": 0.0, "written": True}
    assert not second["result"]["allowed"] and 0 < second["result"]["retry_after"] <= 20
    with open_direct(home.path / "data" / "paddock.db") as database:
        entries = database.read(lambda tx: recent(tx, plugin="bell"))
    (word,) = (entry for entry in entries if entry.type == "plugin.audited")
    (call, _) = sorted((entry for entry in entries if entry.type == "call.ended"), key=lambda entry: entry.seq)
    assert (word.data["action"], word.data["details"]) == ("reminded", {"who": "ann"})
    assert word.request == call.request
    assert call.data["nondeterminism"] == {
        "is_nondeterministic": True,
        "reasons": ["time_of_day"],
        "stability": "high",
    }
