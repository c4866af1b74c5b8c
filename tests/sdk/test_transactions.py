"""Several statements as one, and the test kit's own tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import conversation
from tests.sdk.workers import Refused, shu

from paddock_sdk import HostRefused, Plugin, PluginFault
from paddock_sdk.testing import FakeHost, PluginTester

BANK = """
from paddock_sdk import Plugin

plugin = Plugin("bank", "1.0.0", capabilities_used=["storage:write"])

@plugin.tool
def move(params, context):
    with plugin.storage.transaction() as tables:
        tables.exec("UPDATE a SET money = money - ?", [params["money"]])
        if params["money"] > 100:
            raise ValueError("too much")
        tables.exec("UPDATE b SET money = money + ?", [params["money"]])
    return "moved"

plugin.run()
"""


def exchanged(talk: Any, call: int) -> tuple[list[tuple[str, Any]], Any]:
    """Be the host until the call is answered; gives what was asked, and the answer."""
    asked: list[tuple[str, Any]] = []
    while "method" in (said := talk.receive()):
        asked.append((said["method"].removeprefix("paddock.storage."), said["params"].get("transaction")))
        result = {"transaction": "t1"} if said["method"].endswith("begin") else {"rows_affected": 1}
        talk.send({"jsonrpc": "2.0", "id": said["id"], "result": result})
    assert said["id"] == call
    return asked, said


@pytest.mark.req("G-32", "transactions")
def test_a_block_is_one_transaction_that_is_kept_or_undone(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(BANK)
    with conversation(["python3", "main.py"], tmp_path) as talk:
        talk.greet("bank")
        asked, answer = exchanged(talk, talk.ask("bank.move", {"money": 5}))
        assert asked == [("begin", None), ("exec", "t1"), ("exec", "t1"), ("commit", "t1")]
        assert answer["result"] == "moved"

        asked, answer = exchanged(talk, talk.ask("bank.move", {"money": 500}))
        assert asked == [("begin", None), ("exec", "t1"), ("rollback", "t1")]
        assert answer["error"]["message"] == "the plugin failed (ValueError)"


def test_the_host_object_has_the_same_for_async_code(tmp_path: Path) -> None:
    code = """
    class Plugin:
        async def execute(self, params, context, host):
            async with host.sql.transaction() as tables:
                changed = await tables.exec("UPDATE t SET n = ?", [1])
                rows = (await tables.query("SELECT n FROM t")).rows
                if params.get("fail"):
                    raise ValueError
            return [changed, rows, await host.sql.schema()]
    """

    def host(method: str, params: dict[str, Any]) -> Any:
        answers: dict[str, Any] = {
            "begin": {"transaction": "t9"},
            "exec": {"rows_affected": 2},
            "query": {"rows": [{"n": 1}], "columns": ["n"]},
            "schema": {"tables": ["t"]},
        }
        return answers.get(method.removeprefix("paddock.storage."), {})

    with shu(tmp_path, code, host, capabilities=["storage:write"]) as plugin:
        assert plugin.call()["data"] == [2, [{"n": 1}], ["t"]]
        assert [name.rpartition(".")[2] for name, _ in plugin.asked] == ["begin", "exec", "query", "commit", "schema"]
        assert [params.get("transaction") for _, params in plugin.asked] == [None, "t9", "t9", "t9", None]
        plugin.asked.clear()
        assert plugin.failure({"fail": True})["code"] == -32603
        assert plugin.asked[-1][0] == "paddock.storage.rollback"


def test_tables_that_were_not_declared_are_denied(tmp_path: Path) -> None:
    code = """
    from paddock_sdk import CapabilityDenied
    class Plugin:
        def execute(self, params, context, host):
            try:
                host.sql.query("SELECT 1").wait()
            except CapabilityDenied as denied:
                return str(denied)
    """

    def denying(method: str, params: dict[str, Any]) -> Any:
        raise Refused(-32003, "storage_access_denied")

    with shu(tmp_path, code, denying) as plugin:
        assert plugin.call()["data"] == "storage_access_denied"
        assert plugin.asked[0][0] == "paddock.storage.query"


notes = Plugin("notes", "1.0.0", notifications=["note.added"], capabilities_used=["storage:write"])


@notes.tool
def add(params, context):
    with notes.storage.transaction() as tables:
        tables.exec("CREATE TABLE IF NOT EXISTS note (text TEXT NOT NULL)")
        for text in params["texts"]:
            tables.exec("INSERT INTO note VALUES (?)", [text])
    notes.log.info("added", count=len(params["texts"]))
    notes.notify("note.added", {"count": len(params["texts"])})
    notes.progress(1, 1)
    return notes.storage.query("SELECT count(*) AS n FROM note").rows[0]["n"]


def test_the_test_kit_keeps_tables_and_shows_what_a_plugin_did() -> None:
    tester = PluginTester(notes, FakeHost(["storage:write"]))
    assert tester.introduction["name"] == "notes"
    assert tester.call("add", {"texts": ["a", "b"]}) == 2
    assert tester.host.tables.rows("SELECT text FROM note") == [{"text": "a"}, {"text": "b"}]
    assert tester.notifications == [("note.added", {"count": 2})]
    assert tester.events == [{"type": "progress", "progress": 1, "total": 1}]
    assert tester.log[0]["message"] == "added"

    with pytest.raises(PluginFault, match="NOT NULL"):
        tester.call("add", {"texts": ["c", None]})
    assert tester.call("add", {"texts": []}) == 2  # the half that had succeeded was undone


def test_the_test_kit_denies_what_was_not_granted_and_remembers_it() -> None:
    tester = PluginTester(notes)
    with pytest.raises(PluginFault) as caught:
        tester.call("add", {"texts": []})
    assert caught.value.error_code == -32003
    assert tester.host.denied == ["storage.begin"]
    with pytest.raises(PluginFault, match="storage:write was not granted"):
        PluginTester(notes, FakeHost(["storage:read"])).call("add", {"texts": []})
    assert issubclass(HostRefused, PluginFault)
