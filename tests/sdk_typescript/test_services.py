"""A caged node program asks how often it may, leaves a word in the ledger, says what it cannot repeat, and is found out
after a crash."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.capabilities.http.outside import reply, serving
from tests.fixtures.packages import write_file, write_json
from tests.host.conftest import Home
from tests.host.effects.test_undeclared_effects import tool
from tests.host.effects.test_web_services import UNASKED
from tests.runtime.stage import patiently
from tests.sdk_typescript.node import BUILT_SDK, needs_node

from fixtures.ledger_entries import list_recent
from paddock import Config, open_host
from paddock.core.errors import Conflict, PluginError
from paddock.plugins.manage.enable import enable
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
BELL = {"name": "bell", "tools": [tool("remind", "db_write")], "capabilities": ["host:rate"]}


BUYER = """
import { createPlugin } from "./paddock-sdk/index.js";

const plugin = createPlugin({ name: "buyer", version: "1.0.0" });
plugin.tool("keep", async (_params, call) => {
  await plugin.storage.exec("CREATE TABLE IF NOT EXISTS kept (key TEXT)");
  await plugin.storage.transaction(async (together) => {
    await together.exec("INSERT INTO kept VALUES (?)", [call.idempotency_key]);
    together.answers({ kept: call.idempotency_key });
  });
  process.exit(1);
});
plugin.tool("count", async () => (await plugin.storage.query("SELECT key FROM kept")).rows);
plugin.tool("order", async ({ url }, call) => {
  const { status } = await plugin.http.fetch({ url, method: "POST", body: new Uint8Array([0, 255]) });
  return { status, key: call.idempotency_key };
});
plugin.start();
"""
BUYING = [
    tool("keep", "db_write") | {"recovery": "atomic"},
    tool("count", "read_only"),
    tool("order", "external_call") | {"recovery": "native_key"},
]


def installed(folder: Path, program: str, manifest: dict[str, Any]) -> Home:
    """A home with this node program in it, and the SDK beside the program."""
    package = folder / "package"
    about = {"paddock": 1, "version": "1.0.0", "description": "x", "runtime": {"command": ["node", "./program.mjs"]}}
    write_json(package / "paddock.yaml", about | manifest)
    write_file(package / "program.mjs", program)
    shutil.copytree(BUILT_SDK, package / "paddock-sdk")
    home = Home(folder)
    home.take(package)
    home.changing(lambda plugins: enable(plugins, manifest["name"]))
    return home


async def known(call: Callable[[], Awaitable[Any]]) -> Any:
    """What is answered under a key once it is not in doubt any more."""
    while True:
        try:
            return await call()
        except Conflict as error:
            assert error.error_code == "effect.in_doubt"
            await asyncio.sleep(0.02)


@needs_node
async def test_what_a_plugin_said_with_its_commit_is_the_answer_after_a_crash(tmp_path: Path) -> None:
    home = installed(tmp_path, BUYER, {"name": "buyer", "tools": BUYING, "capabilities": ["storage:write"]})
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        with pytest.raises(PluginError):
            await patiently(host.call("buyer.keep", {}, idempotency_key="k1"))
        async with asyncio.timeout(30):
            again = await known(lambda: host.call("buyer.keep", {}, idempotency_key="k1"))
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        rows = await patiently(host.call("buyer.count", {}))
    assert again == {"kept": "k1"}
    assert rows == [{"key": "k1"}]


@needs_node
async def test_a_request_through_the_host_bears_the_key_of_its_call(tmp_path: Path) -> None:
    async with serving(None, order=reply(201)) as server:
        granted = ["host:http", f"net:127.0.0.1:{server.port}"]
        home = installed(tmp_path, BUYER, {"name": "buyer", "tools": BUYING[2:], "capabilities": granted})
        write_file(home.path / "policies" / "unasked.cedar", UNASKED).chmod(0o600)
        async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
            asked = {"url": f"http://127.0.0.1:{server.port}/order"}
            made = await patiently(host.call("buyer.order", asked, idempotency_key="k1"))
    assert made == {"status": 201, "key": "k1"}
    (seen,) = server.seen
    assert (seen.method, seen.body, "idempotency-key" in seen.headers) == ("POST", b"\x00\xff", True)


@needs_node
async def test_a_plugin_keeps_to_its_rate_and_its_words_are_kept_with_the_call(tmp_path: Path) -> None:
    home = installed(tmp_path, PROGRAM, BELL)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        first = await patiently(host.call("bell.remind", {"who": "ann"}))
        second = await patiently(host.call("bell.remind", {"who": "bob"}))

    assert first["result"] == {"allowed": True, "retry_after": 0.0, "written": True}
    assert not second["result"]["allowed"] and 0 < second["result"]["retry_after"] <= 20
    with open_direct(home.path / "data" / "paddock.db") as database:
        entries = database.read(lambda tx: list_recent(tx, plugin="bell"))
    (word,) = (entry for entry in entries if entry.type == "plugin.audited")
    (call, _) = sorted((entry for entry in entries if entry.type == "call.ended"), key=lambda entry: entry.seq)
    assert (word.data["action"], word.data["details"]) == ("reminded", {"who": "ann"})
    assert word.request == call.request
    assert call.data["nondeterminism"] == {
        "is_nondeterministic": True,
        "reasons": ["time_of_day"],
        "stability": "high",
    }
