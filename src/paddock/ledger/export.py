"""A chain as JSON lines: its entries with all that their hashes are over, then its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from paddock.ledger.chain import VERSION, Sealed
from paddock.ledger.feed import sealed
from paddock.store.database import DirectDatabase

_PAGE = 2_000


def export_entries(database: DirectDatabase, tenant: str) -> Iterator[bytes]:
    """The lines of the entries, oldest first, without their ends."""
    seq = 0
    while True:
        rows = database.read(lambda tx, after=seq: list(sealed(tx, tenant, after=after, limit=_PAGE)))
        for row in rows:
            yield orjson.dumps(_exported(row))
        if len(rows) < _PAGE:
            return
        seq = rows[-1].seq


def export_checkpoints(lines: Sequence[bytes]) -> Iterator[bytes]:
    """The lines of the checkpoints; what is none of ours stands there as it is."""
    return (b'{"checkpoint":' + line + b"}" for line in lines)


def _exported(row: Sealed) -> dict[str, Any]:
    return {
        "v": VERSION,
        "tenant": row.tenant,
        "seq": row.seq,
        "id": row.id,
        "at": row.at,
        "type": row.type,
        "plugin": row.plugin,
        "call": row.call,
        "request": row.request,
        "facts": orjson.Fragment(row.facts),
        "personal": None if row.personal is None else orjson.Fragment(row.personal),
        "salt": None if row.salt is None else row.salt.hex(),
        "commitment": None if row.commitment is None else row.commitment.hex(),
        "hash": row.hash.hex(),
    }
