"""A chain as JSON lines: its entries with all that their hashes are over, its checkpoints, and where it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from paddock.ledger.chain import BEGINNING, VERSION, Sealed
from paddock.ledger.feed import head_of, no_text, sealed
from paddock.store.database import DirectDatabase

_PAGE = 2_000


def export(database: DirectDatabase, tenant: str, signed: Sequence[bytes]) -> Iterator[bytes]:
    """The lines of the entries, oldest first, of the checkpoints, and of the head, without their ends.

    The head comes last, so that an export which was cut anywhere is known by it.

    Args:
        database: Where the chain is.
        tenant: Whose it is.
        signed: The lines of its checkpoints, read before; what is none of ours stands there as it is.

    Raises:
        HostError: `ledger.broken`, when a row holds what is no text.
    """
    seq = 0
    while True:
        try:
            # Both in one read: otherwise the head might be that of rows which have come since.
            rows, head = database.read(
                lambda tx, after=seq: (list(sealed(tx, tenant, after=after, limit=_PAGE)), head_of(tx, tenant))
            )
        except UnicodeDecodeError as error:
            raise no_text() from error
        for row in rows:
            yield orjson.dumps(_exported(row))
        if len(rows) < _PAGE:
            break
        seq = rows[-1].seq
    yield from (b'{"checkpoint":' + line + b"}" for line in signed)
    end, last = head or (0, BEGINNING)
    yield orjson.dumps({"head": {"seq": end, "hash": last.hex()}})


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
