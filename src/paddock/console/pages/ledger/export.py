"""Ledger export formats: JSON Lines and CSV. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from paddock.ledger.entry import LedgerEntry
from paddock.ledger.text.entry_text import entry_sentence

_CSV_COLUMNS: Final = (
    "number", "at", "type", "what happened", "plugin", "who", "call", "request", "status", "error", "facts", "hash",
)  # fmt: skip
_FORMULA_PREFIXES: Final = ("=", "+", "-", "@", "\t", "\r")


def json_lines(entries: Sequence[LedgerEntry]) -> bytes:
    """Encode entries as JSON, one object per line."""
    return b"".join(orjson.dumps(entry.to_json(), option=orjson.OPT_APPEND_NEWLINE) for entry in entries)


def csv_lines(entries: Sequence[LedgerEntry], names: Mapping[str, str]) -> bytes:
    """Encode entries as CSV rows, with a sentence for each; `names` are those of people and API keys."""
    return _encode_csv([_csv_row(entry, names) for entry in entries])


def _csv_row(entry: LedgerEntry, names: Mapping[str, str]) -> list[Any]:
    facts = entry.facts
    return [
        entry.seq,
        entry.at,
        entry.type,
        entry_sentence(entry, names),
        entry.plugin or "",
        "erased" if entry.erased else entry.personal.get("principal", ""),
        entry.call or "",
        entry.request or "",
        facts.get("status", ""),
        facts.get("error_code", ""),
        orjson.dumps(facts).decode(),
        entry.hash,
    ]


def _encode_csv(rows: Sequence[Sequence[Any]]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([_escape_formula(cell) for cell in row] for row in rows)
    return buffer.getvalue().encode("utf-8", "replace")


def _escape_formula(cell: Any) -> Any:
    """Quote a cell that a spreadsheet would take for a formula: cells contain text of plugins."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_PREFIXES) else cell


CSV_HEADER: Final = _encode_csv([_CSV_COLUMNS])
