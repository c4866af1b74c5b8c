"""Exports a chain as JSON lines: its entries with everything that is hashed, its checkpoints, and its head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from paddock.ledger.entry_hash import CHAIN_VERSION, GENESIS_HASH, SealedEntry
from paddock.ledger.read.entries import SEALED_PAGE_ROWS, open_chain, read_head, read_sealed, undecodable_row_error
from paddock.store.database import DirectDatabase


def export_chain(database: DirectDatabase, tenant: str, checkpoint_lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines of the entries, oldest first, then the checkpoints, then the head, without line ends.

    The head comes last, so that a truncated export is recognised.

    Args:
        database: The database that holds the chain.
        tenant: The owner of the chain.
        checkpoint_lines: The lines of its checkpoints, read before; foreign lines are exported as they are.

    Raises:
        HostError: `ledger.broken`, when a row holds bytes that are not text.
    """
    seq = 0
    chain = database.read(lambda tx: open_chain(tx, tenant))
    while True:
        try:
            # Both in one read: otherwise the head might include rows that were added since.
            rows, head = database.read(
                lambda tx, after=seq: (
                    read_sealed(tx, chain, after=after, limit=SEALED_PAGE_ROWS),
                    read_head(tx, tenant),
                )
            )
        except UnicodeDecodeError as error:
            raise undecodable_row_error() from error
        for row in rows:
            yield orjson.dumps(_row_json(row))
        if len(rows) < SEALED_PAGE_ROWS:
            break
        seq = rows[-1].seq
    yield from (b'{"checkpoint":' + line + b"}" for line in checkpoint_lines)
    end, last = head or (0, GENESIS_HASH)
    yield orjson.dumps({"head": {"seq": end, "hash": last.hex()}})


def _row_json(row: SealedEntry) -> dict[str, Any]:
    return {
        "v": CHAIN_VERSION,
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
