"""Moves the rows of the ledger from the table before migration 33 into the one after it, a few at a time.

Each step is a transaction: rows are written to the new table, read back, compared with those that they were made
from, and only then deleted from the old one. A process that is killed, or a full disk, leaves every row in one of the
tables, and the next start goes on. Rows are moved as they are, so that verification finds what was tampered with as it
did before.

This is a part of the migration and stays as it is, whatever becomes of the ledger: it uses nothing of `paddock.ledger`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import orjson

from paddock.core.errors import HostError
from paddock.store.transaction import Row, Transaction

_ROWS_PER_STEP: Final = 2_000
_BLOCK_ROWS: Final = 1_000
_GAP: Final = b"\x01"
_REQUEST_GAP: Final = b"\x02"
_CALL_GAP: Final = b"\x03"
_MIN_SHARED_BYTES: Final = 48
_EMPTY: Final[tuple[object, ...]] = ({}, [])
_LISTED: Final = {
    "approval.answered": ("approved",),
    "approval.ended": ("state",),
    "call.ended": ("stands_for", "status", "success"),
    "call.started": ("stands_for",),
    "plugin.definition_changed": ("standing",),
}
_SHARED: Final = frozenset(
    """
    name plugin plugin_id version digest method capability effects decision policies policy_version background
    tool tool_name hook word error_code error_category recovery
    approved state standing stands_for status success
    """.split()  # noqa: SIM905 - a table of words
)
_ADD_CHAINS: Final = (
    "INSERT INTO ledger_chains (chain, tenant) SELECT coalesce((SELECT max(chain) FROM ledger_chains), 0) + 1, tenant "
    "FROM (SELECT tenant FROM ledger_before_33 WHERE tenant NOT IN (SELECT tenant FROM ledger_chains) "
    "ORDER BY tenant LIMIT 1) AS found"
)
_OLD_COLUMNS: Final = "seq, id, at, type, plugin, call, request, principal, facts, personal, salt, commitment, hash"
_NEXT_CHAIN: Final = (
    "SELECT chain FROM ledger_chains WHERE EXISTS "
    "(SELECT 1 FROM ledger_before_33 AS old WHERE old.tenant = ledger_chains.tenant) ORDER BY chain LIMIT 1"
)
_OF_CHAIN: Final = "tenant = (SELECT tenant FROM ledger_chains WHERE chain = ?)"
_INSERT: Final = (
    "INSERT INTO ledger (chain, seq, id, at, kind, plugin, call, request, principal, template, facts, personal, salt, "
    "commitment, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_READ_BACK: Final = (
    "SELECT ledger.seq, id, at, ledger_kinds.type, plugin, call, request, principal, ledger.facts, personal, salt, "
    "commitment, hash, ledger_templates.facts AS template FROM ledger "
    "JOIN ledger_kinds ON ledger_kinds.chain = ledger.chain AND ledger_kinds.kind = ledger.kind "
    "LEFT JOIN ledger_templates ON ledger_templates.chain = ledger.chain "
    "AND ledger_templates.template = ledger.template "
    "WHERE ledger.chain = ? AND ledger.seq BETWEEN ? AND ? ORDER BY ledger.seq"
)
_NOTE_TIME: Final = (
    "INSERT INTO ledger_times (chain, block, first_at, last_at) SELECT ?, ?, min(at), max(at) FROM ledger "
    "WHERE chain = ? AND seq >= ? AND seq < ? "
    "ON CONFLICT (chain, block) DO UPDATE SET first_at = excluded.first_at, last_at = excluded.last_at"
)
# Bytes that are not text, which SQLite lets other programs store, cannot be read as text. They are moved unread.
_MOVE_KIND_UNREAD: Final = (
    "INSERT INTO ledger_kinds (chain, kind, type, facts) SELECT ?, ?, type, ? FROM ledger_before_33 "  # noqa: S608
    f"WHERE {_OF_CHAIN} AND seq = ?"
)
_MOVE_UNREAD: Final = (
    "INSERT INTO ledger (chain, seq, id, at, kind, plugin, call, request, principal, facts, personal, salt, "  # noqa: S608
    "commitment, hash) SELECT ?, seq, id, at, ?, plugin, call, request, principal, facts, personal, salt, commitment, "
    f"hash FROM ledger_before_33 WHERE {_OF_CHAIN} AND seq = ?"
)


class _Split(NamedTuple):
    template: bytes | None
    values: bytes


def move_ledger_rows(tx: Transaction) -> bool:
    """Move some rows of one chain; False if there are none left."""
    while tx.execute(_ADD_CHAINS):
        pass
    found = tx.one(_NEXT_CHAIN)
    if found is None:
        return False
    chain: int = found["chain"]
    try:
        rows = _read_old(tx, chain, _ROWS_PER_STEP)
    except UnicodeDecodeError:
        _move_one(tx, chain)
        return True
    _move(tx, chain, rows)
    return True


def _read_old(tx: Transaction, chain: int, limit: int) -> list[Row]:
    return tx.all(
        f"SELECT {_OLD_COLUMNS} FROM ledger_before_33 WHERE {_OF_CHAIN} ORDER BY seq LIMIT ?",  # noqa: S608
        (chain, limit),
    )


def _move_one(tx: Transaction, chain: int) -> None:
    """Move the first row, which may be one that cannot be read."""
    try:
        _move(tx, chain, _read_old(tx, chain, 1))
    except UnicodeDecodeError:
        first = tx.one(f"SELECT min(seq) AS seq FROM ledger_before_33 WHERE {_OF_CHAIN}", (chain,))  # noqa: S608
        seq = first["seq"] if first else 0
        kind = _next_number(tx, "kind", chain)
        # Its facts only tell it from a kind that is there already.
        tx.execute(_MOVE_KIND_UNREAD, (chain, kind, f'{{"unread":{seq}}}', chain, seq))
        tx.execute(_MOVE_UNREAD, (chain, kind, chain, seq))
        _finish_step(tx, chain, [seq])


def _move(tx: Transaction, chain: int, rows: Sequence[Row]) -> None:
    kinds: dict[tuple[str, str], int] = {}
    templates: dict[bytes, int] = {}
    for row in rows:
        facts = _parse(row["facts"])
        split = _split(facts, row)
        values = (
            chain,
            row["seq"],
            row["id"],
            row["at"],
            _kind(tx, chain, kinds, row["type"], _listed(row["type"], facts)),
            row["plugin"],
            row["call"],
            row["request"],
            row["principal"],
            None if split.template is None else _template(tx, chain, templates, split.template),
            split.values.decode(),
            row["personal"],
            row["salt"],
            row["commitment"],
            row["hash"],
        )
        tx.execute(_INSERT, values)
    first, last = rows[0]["seq"], rows[-1]["seq"]
    if [_as_before(row) for row in tx.all(_READ_BACK, (chain, first, last))] != [dict(row) for row in rows]:
        raise HostError(
            f"rows {first:,} to {last:,} of the ledger could not be moved as they are; nothing of them was changed",
            code="store.migrations",
        )
    _finish_step(tx, chain, [row["seq"] for row in rows])


def _finish_step(tx: Transaction, chain: int, moved: Sequence[int]) -> None:
    """Note the times of the rows that were moved, and delete them where they were."""
    first, last = moved[0], moved[-1]
    for block in sorted({seq // _BLOCK_ROWS for seq in moved}):
        begin = block * _BLOCK_ROWS
        tx.execute(_NOTE_TIME, (chain, block, chain, begin, begin + _BLOCK_ROWS))
    tx.execute(f"DELETE FROM ledger_before_33 WHERE {_OF_CHAIN} AND seq BETWEEN ? AND ?", (chain, first, last))  # noqa: S608


def _as_before(row: Row) -> Row:
    """Put a row together again as it was."""
    template = row.pop("template")
    if template is not None:
        row["facts"] = _fill(template.encode(), row["facts"].encode(), row["call"], row["request"]).decode()
    return row


def _parse(text: str) -> dict[str, Any]:
    try:
        facts = orjson.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", facts) if isinstance(facts, dict) else {}


def _split(facts: dict[str, Any], row: Row) -> _Split:
    """Split facts into a template and what fills its gaps, if that gives the same text again."""
    whole = _Split(None, row["facts"].encode())
    gaps = [name for name in sorted(facts) if name not in _SHARED and facts[name] not in _EMPTY]
    if len(gaps) == len(facts) or len(whole.values) < _MIN_SHARED_BYTES:
        return whole
    filled: dict[str, orjson.Fragment] = {}
    values: list[bytes] = []
    for name in gaps:
        if name == "request_id" and facts[name] == row["request"] is not None:
            filled[name] = orjson.Fragment(_REQUEST_GAP)
        elif name == "call_id" and facts[name] == row["call"] is not None:
            filled[name] = orjson.Fragment(_CALL_GAP)
        else:
            filled[name] = orjson.Fragment(_GAP)
            values.append(orjson.dumps(facts[name], option=orjson.OPT_SORT_KEYS))
    template = orjson.dumps({**facts, **filled}, option=orjson.OPT_SORT_KEYS)
    split = _Split(template, _GAP.join(values))
    if len(template) < _MIN_SHARED_BYTES or _fill(template, split.values, row["call"], row["request"]) != whole.values:
        return whole
    return split


def _fill(template: bytes, values: bytes, call: str | None, request: str | None) -> bytes:
    pieces = template.replace(_REQUEST_GAP, orjson.dumps(request)).replace(_CALL_GAP, orjson.dumps(call)).split(_GAP)
    texts = values.split(_GAP) if len(pieces) > 1 else []
    return b"".join(part for pair in zip(pieces, [*texts, b""], strict=True) for part in pair)


def _listed(kind: str, facts: dict[str, Any]) -> str:
    chosen = {name: facts[name] for name in _LISTED.get(kind, ()) if name in facts and _is_listable(facts[name])}
    return orjson.dumps(chosen, option=orjson.OPT_SORT_KEYS).decode()


def _is_listable(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) and one.isprintable() for one in cast("list[object]", value))
    return isinstance(value, bool) or (isinstance(value, str) and value.isprintable())


def _kind(tx: Transaction, chain: int, known: dict[tuple[str, str], int], kind: str, listed: str) -> int:
    if (kind, listed) not in known:
        found = tx.one(
            "SELECT kind FROM ledger_kinds WHERE chain = ? AND type = ? AND facts = ?", (chain, kind, listed)
        )
        number = found["kind"] if found else _next_number(tx, "kind", chain)
        if found is None:
            tx.execute(
                "INSERT INTO ledger_kinds (chain, kind, type, facts) VALUES (?, ?, ?, ?)", (chain, number, kind, listed)
            )
        known[kind, listed] = number
    return known[kind, listed]


def _template(tx: Transaction, chain: int, known: dict[bytes, int], facts: bytes) -> int:
    if facts not in known:
        digest = sha256(facts).digest()[:16]
        found = tx.one("SELECT template FROM ledger_templates WHERE chain = ? AND digest = ?", (chain, digest))
        number = found["template"] if found else _next_number(tx, "template", chain)
        if found is None:
            tx.execute(
                "INSERT INTO ledger_templates (chain, template, digest, facts) VALUES (?, ?, ?, ?)",
                (chain, number, digest, facts.decode()),
            )
        known[facts] = number
    return known[facts]


def _next_number(tx: Transaction, column: str, chain: int) -> int:
    last = tx.one(f"SELECT max({column}) AS number FROM ledger_{column}s WHERE chain = ?", (chain,))  # noqa: S608
    return ((last["number"] if last else None) or 0) + 1
