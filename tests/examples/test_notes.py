"""native-notes, with the test in the host's place and a real SQLite behind its storage."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from typing import Any

import pytest
import yaml
from tests.examples.places import EXAMPLES, schema_errors
from tests.sdk.conversation import Conversation, conversation

ROOT = EXAMPLES / "native-notes"
MANIFEST = yaml.safe_load((ROOT / "paddock.yaml").read_text())
TOOLS = {tool["name"]: tool for tool in MANIFEST["tools"]}
NOTES_SCHEMA = TOOLS["list_notes"]["output_schema"]


class Host:
    """Calls the plugin, and answers what it asks of the storage meanwhile."""

    def __init__(self, plugin: Conversation, tables: sqlite3.Connection) -> None:
        self.plugin = plugin
        self.tables = tables
        self.asked: list[str] = []

    def call(self, tool: str, params: dict[str, Any]) -> Any:
        assert schema_errors(TOOLS[tool]["input_schema"], params) == []
        request_id = self.plugin.ask(f"native-notes.{tool}", params)
        while "method" in (message := self.plugin.receive()):
            self.plugin.send({"jsonrpc": "2.0", "id": message["id"], "result": self._serve(message)})
        assert message["id"] == request_id
        return message["result"]

    def _serve(self, request: Any) -> Any:
        self.asked.append(request["method"])
        if request["method"] == "paddock.storage.schema":
            return {"tables": [name for (name,) in self.tables.execute("SELECT name FROM sqlite_schema")]}
        cursor = self.tables.execute(request["params"]["sql"], request["params"]["params"])
        if request["method"] == "paddock.storage.exec":
            return {"rows_affected": cursor.rowcount}
        assert request["method"] == "paddock.storage.query"
        columns = [column[0] for column in cursor.description]
        return {"rows": [dict(zip(columns, row, strict=True)) for row in cursor], "columns": columns}

    def texts(self, tool: str, params: dict[str, Any]) -> list[str]:
        answer = self.call(tool, params)
        assert schema_errors(NOTES_SCHEMA, answer) == []
        return [note["text"] for note in answer["notes"]]


@pytest.fixture
def host() -> Generator[Host, None, None]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        with conversation(MANIFEST["runtime"]["command"], ROOT) as talk:
            talk.greet("native-notes", {})
            yield Host(talk, connection)
    finally:
        connection.close()


def test_notes_are_added_listed_and_found(host: Host) -> None:
    added = host.call("add_note", {"text": "Water the fig", "tags": ["garden", "weekly"]})
    assert schema_errors(TOOLS["add_note"]["output_schema"], added) == []
    host.call("add_note", {"text": "Buy string", "tags": ["smart-garden"]})

    assert host.texts("list_notes", {}) == ["Buy string", "Water the fig"]
    assert host.texts("list_notes", {"tag": "garden"}) == ["Water the fig"]
    assert host.texts("search_notes", {"text": "FIG"}) == ["Water the fig"]
    assert host.call("list_notes", {"tag": "weekly"})["notes"][0]["tags"] == ["garden", "weekly"]


def test_tools_that_only_read_ask_the_host_for_nothing_else(host: Host) -> None:
    host.call("add_note", {"text": "x"})
    host.asked.clear()
    host.call("list_notes", {})
    host.call("search_notes", {"text": "x"})
    assert host.asked == ["paddock.storage.query"] * 2
    assert {name: tool["effects"] for name, tool in TOOLS.items()} == {
        "add_note": ["db_write"],
        "list_notes": ["read_only"],
        "search_notes": ["read_only"],
    }


def test_before_the_first_note_there_is_none_and_the_empty_table_is_made_once(host: Host) -> None:
    assert host.texts("list_notes", {}) == []
    assert host.texts("search_notes", {"text": "x"}) == []
    assert host.asked == ["paddock.storage.exec", "paddock.storage.query", "paddock.storage.query"]
    host.call("add_note", {"text": "x"})
    assert host.texts("list_notes", {}) == ["x"]


def test_text_is_text_and_never_sql_or_a_pattern(host: Host) -> None:
    for text in ("100% sure", "100 sure", "a_b", "axb", "'; DROP TABLE notes; --", "back\\slash"):
        host.call("add_note", {"text": text})
    assert host.texts("search_notes", {"text": "100%"}) == ["100% sure"]
    assert host.texts("search_notes", {"text": "a_b"}) == ["a_b"]
    assert host.texts("search_notes", {"text": "'; DROP"}) == ["'; DROP TABLE notes; --"]
    assert host.texts("search_notes", {"text": "\\"}) == ["back\\slash"]
    assert len(host.texts("list_notes", {})) == 6


def test_the_knobs_turn_the_page_size_and_the_order(host: Host) -> None:
    for text in "abc":
        host.call("add_note", {"text": text})
    host.plugin.call("config.update", {"config": {"page_size": 2, "order": "oldest"}})
    assert host.texts("list_notes", {}) == ["a", "b"]
    assert host.texts("list_notes", {"page": 2}) == ["c"]
    for config in ({"page_size": 0}, {"page_size": "2"}, {"order": "random"}):
        assert host.plugin.error("config.update", {"config": config})["code"] == -32004
    assert host.texts("list_notes", {}) == ["a", "b"]


def test_what_the_host_refuses_is_said_and_the_table_is_made_at_the_next_try(host: Host) -> None:
    call = host.plugin.ask("native-notes.add_note", {"text": "x"})
    asked = host.plugin.receive()
    host.plugin.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32003, "message": "not granted"}})
    answer = host.plugin.receive()
    assert (answer["id"], answer["error"]["code"]) == (call, -32003)
    assert host.call("add_note", {"text": "x"})["id"]


def test_wrong_parameters_never_reach_the_host(host: Host) -> None:
    for tool, params in (("add_note", {}), ("add_note", {"text": "x", "tags": [1]}), ("list_notes", {"page": 0})):
        assert host.plugin.error(f"native-notes.{tool}", params)["code"] == -32602
    assert host.plugin.end() == (0, [])
