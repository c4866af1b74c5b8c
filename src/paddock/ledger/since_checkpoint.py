"""Whether what came since the last checkpoint is what was recorded, looked at whenever a daemon starts.

What lies before a checkpoint stays where it is by its signature, and a whole chain is a matter for `verify`. What came
later is held by nothing outside the database, and the next checkpoint would sign it as it stands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from pathlib import Path

from paddock.core.errors import HostError, PaddockError
from paddock.ledger.anchors import Anchors
from paddock.ledger.chain import Sealed
from paddock.ledger.checkpoint import Checkpoint, checkpoint_file, last_in, named_in, signed_by
from paddock.ledger.feed import head_of, sealed
from paddock.ledger.keys import home_key_files, key_id, read_public_key
from paddock.ledger.verify import Head, Walk, Wrong
from paddock.store.database import Database, Transaction

PAGE = 2_000

_log = logging.getLogger("paddock.ledger")


async def look_through(database: Database, state: Path, broken: MutableMapping[str, PaddockError]) -> None:
    """Note who has a chain that does not go on from its last checkpoint as it should, each as soon as it is known."""
    try:
        whose = sorted({*await database.read(_with_heads), *named_in(state)})
    except (PaddockError, OSError) as error:
        _log.warning("the end of the ledger was not verified: %s", error)
        return
    for tenant in whose:
        try:
            wrong = await _wrong_with(database, state, tenant)
        except (PaddockError, OSError) as error:
            # No reason to think ill of the chain: whoever makes the next checkpoint meets the same, and says so.
            _log.warning("the end of the ledger of %s was not verified: %s", tenant, error)
            continue
        if wrong is not None:
            broken[tenant] = _told(tenant, wrong)
            _log.error("%s", broken[tenant].message)


async def _wrong_with(database: Database, state: Path, tenant: str) -> Wrong | None:
    last = last_in(checkpoint_file(state, tenant))
    walk = Walk(tenant, Anchors())
    try:
        if last is not None:
            _require_ours(state, last)
            await database.read(lambda tx: _require_there(tx, last))
            walk.seq, walk.last = last.to_seq, bytes.fromhex(last.head)
        while True:
            rows, head = await database.read(lambda tx, after=walk.seq: _page(tx, tenant, after))
            await asyncio.to_thread(_go, walk, rows)
            if len(rows) < PAGE:
                walk.end(head)
                return None
    except Wrong as wrong:
        return wrong
    except UnicodeDecodeError:
        return Wrong("tampered", "a row holds what is no text", walk.seq + 1)


def _go(walk: Walk, rows: list[Sealed]) -> None:
    for row in rows:
        walk.step(row)


def _require_ours(state: Path, last: Checkpoint) -> None:
    keys = [read_public_key(file) for file in home_key_files(state)]
    if last.key_id not in map(key_id, keys):
        raise HostError(f"the key {last.key_id} that signed its last checkpoint is not here", code="ledger.key")
    if not signed_by(last, keys):
        raise Wrong("tampered", "its last checkpoint has a false signature", last.to_seq)


def _require_there(tx: Transaction, last: Checkpoint) -> None:
    row = tx.one("SELECT hash FROM ledger WHERE tenant = ? AND seq = ?", (last.tenant, last.to_seq))
    if row is None:
        raise Wrong("truncated", f"rows up to {last.to_seq:,} were signed at {last.at}, and that one is not here")
    if row["hash"].hex() != last.head:
        raise Wrong("tampered", f"it is not the one that was signed at {last.at}", last.to_seq)


def _page(tx: Transaction, tenant: str, after: int) -> tuple[list[Sealed], Head | None]:
    head = head_of(tx, tenant)
    return list(sealed(tx, tenant, after=after, limit=PAGE)), Head(*head) if head else None


def _with_heads(tx: Transaction) -> list[str]:
    return [row["tenant"] for row in tx.all("SELECT tenant FROM ledger_heads")]


def _told(tenant: str, wrong: Wrong) -> HostError:
    where = f"row {wrong.seq:,}: " if wrong.seq is not None else ""
    return HostError(
        f"the ledger of {tenant} is not what was recorded: {where}{wrong.what}",
        code="ledger.broken",
        hint="see how far it goes: paddock ledger verify; calls are taken again once the ledger is whole",
        details={"tenant": tenant, "verdict": wrong.verdict, "seq": wrong.seq},
    )
