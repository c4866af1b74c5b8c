"""Entries as lines of a file that somebody takes away. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

import orjson

from paddock.ledger.entry import Entry
from paddock.ledger.words.sentence import sentence_of

_COLUMNS: Final = (
    "number", "at", "type", "what happened", "plugin", "who", "call", "request", "status", "error", "facts", "hash",
)  # fmt: skip
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def json_lines(entries: Sequence[Entry]) -> bytes:
    """Each entry with all that it says, as one object a line."""
    return b"".join(orjson.dumps(entry.to_json(), option=orjson.OPT_APPEND_NEWLINE) for entry in entries)


def csv_lines(entries: Sequence[Entry]) -> bytes:
    """The same for a spreadsheet, with what happened in words."""
    return _csv([_row(entry) for entry in entries])


def _row(entry: Entry) -> list[Any]:
    facts = entry.facts
    return [
        entry.seq,
        entry.at,
        entry.type,
        sentence_of(entry),
        entry.plugin or "",
        "erased" if entry.erased else entry.personal.get("principal", ""),
        entry.call or "",
        entry.request or "",
        facts.get("status", ""),
        facts.get("error_code", ""),
        orjson.dumps(facts).decode(),
        entry.hash,
    ]


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    written = io.StringIO(newline="")
    csv.writer(written).writerows([_harmless(cell) for cell in row] for row in rows)
    return written.getvalue().encode("utf-8", "replace")


def _harmless(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: parts of it are a plugin's own words."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


CSV_HEAD: Final = _csv([_COLUMNS])
