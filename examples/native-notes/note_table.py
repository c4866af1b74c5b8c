"""The notes as a table that the host keeps: all SQL of the plugin is here."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any, TypedDict

from paddock_sdk import Storage

CREATE = "CREATE TABLE IF NOT EXISTS notes (id TEXT PRIMARY KEY, text TEXT, tags TEXT, created TEXT)"
SELECT = "SELECT id, text, tags, created FROM notes WHERE"
MOST_RESULTS = 50


class Note(TypedDict):
    id: str
    text: str
    tags: list[str]
    created: str


class NoteTable:
    """Notes in the plugin's storage. The table is made when it is first used; tools that only read may make it too."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._made = False

    def add(self, text: str, tags: list[str]) -> str:
        """Keep a note; gives its id."""
        self._make()
        note_id = uuid.uuid4().hex
        values = [note_id, text, json.dumps(tags), _now()]
        self._storage.exec("INSERT INTO notes (id, text, tags, created) VALUES (?, ?, ?, ?)", values)
        return note_id

    def page(self, tag: str, number: int, size: int, *, newest_first: bool) -> list[Note]:
        # A tag stands in the list as JSON writes it, so "art" is not found in "smart".
        wanted = f"%{_literally(json.dumps(tag))}%" if tag else "%"
        sql = f"{SELECT} tags LIKE ? ESCAPE '\\' {_order(newest_first)} LIMIT ? OFFSET ?"
        return self._read(sql, [wanted, size, (number - 1) * size])

    def containing(self, text: str, *, newest_first: bool) -> list[Note]:
        sql = f"{SELECT} text LIKE ? ESCAPE '\\' {_order(newest_first)} LIMIT ?"
        return self._read(sql, [f"%{_literally(text)}%", MOST_RESULTS])

    def _read(self, sql: str, values: list[Any]) -> list[Note]:
        self._make()
        rows = self._storage.query(sql, values).rows
        return [
            {"id": row["id"], "text": row["text"], "tags": json.loads(row["tags"]), "created": row["created"]}
            for row in rows
        ]

    def _make(self) -> None:
        if not self._made:
            self._storage.exec(CREATE)
            self._made = True


def _now() -> str:
    """The time with a fixed number of digits, so that the text sorts as time does."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


def _order(newest_first: bool) -> str:
    return f"ORDER BY created {'DESC' if newest_first else 'ASC'}, id"


def _literally(text: str) -> str:
    """A text for LIKE in which % and _ mean themselves."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
