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
from paddock.ledger.chain.anchors import Anchors
from paddock.ledger.chain.checkpoint import (
    Checkpoint,
    checkpoint_file,
    is_signed_by,
    last_checkpoint_in,
    parse_checkpoint,
    read_checkpoint_lines,
    tenants_in_file_names,
)
from paddock.ledger.chain.signing_key import key_id, public_key_files, read_public_key
from paddock.ledger.chain.verifier import ChainError, ChainHead, ChainVerifier
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.entries import read_head, read_sealed
from paddock.store.database import Database, Transaction

PAGE_ROWS = 2_000

_log = logging.getLogger("paddock.ledger")


async def verify_since_checkpoint(database: Database, state: Path, broken: MutableMapping[str, PaddockError]) -> None:
    """Note who has a chain that does not go on from its last checkpoint as it should, each as soon as it is known."""
    try:
        whose = sorted({*await database.read(_tenants_with_heads), *tenants_in_file_names(state)})
    except (PaddockError, OSError) as error:
        _log.warning("the end of the ledger was not verified: %s", error)
        return
    for tenant in whose:
        try:
            wrong = await _find_error(database, state, tenant)
        except (PaddockError, OSError) as error:
            # No reason to think ill of the chain: whoever makes the next checkpoint meets the same, and says so.
            _log.warning("the end of the ledger of %s was not verified: %s", tenant, error)
            continue
        if wrong is not None:
            broken[tenant] = _broken_chain_error(tenant, wrong)
            _log.error("%s", broken[tenant].message)


async def _find_error(database: Database, state: Path, tenant: str) -> ChainError | None:
    walk = ChainVerifier(tenant, Anchors())
    try:
        last, ours = await asyncio.to_thread(_last_checkpoints, state, tenant)
        for point in (last, ours):
            if point is not None:
                await database.read(lambda tx, point=point: _require_signed_row(tx, point))
        if ours is not None:
            walk.seq, walk.last = ours.to_seq, bytes.fromhex(ours.head)
        while True:
            rows, head = await database.read(lambda tx, after=walk.seq: _read_page(tx, tenant, after))
            await asyncio.to_thread(_check_rows, walk, rows)
            if len(rows) < PAGE_ROWS:
                walk.check_head(head)
                return None
    except ChainError as wrong:
        return wrong
    except UnicodeDecodeError:
        return ChainError("tampered", "a row holds what is no text", walk.seq + 1)


def _check_rows(walk: ChainVerifier, rows: list[SealedEntry]) -> None:
    for row in rows:
        walk.check_row(row)


def _last_checkpoints(state: Path, tenant: str) -> tuple[Checkpoint | None, Checkpoint | None]:
    """The last checkpoint, and the last that a key of this home signed: what comes after that one is held by nothing.

    They are the same one but where the last names a key that is not here, or is none. Anybody can write such a line, so
    it must not spare a chain the look.
    """
    file, keys = checkpoint_file(state, tenant), _home_keys(state)
    last = None
    try:
        last = last_checkpoint_in(file)
        if last is None or last.key_id in keys:
            if last is not None and not is_signed_by(last, keys.values()):
                raise ChainError("tampered", "its last checkpoint has a false signature", last.to_seq)
            return last, last
        _log.warning("the key %s that signed the last checkpoint of %s is not here", last.key_id, tenant)
    except HostError as error:
        _log.warning("%s", error)
    points = (point for line in reversed(read_checkpoint_lines(file)) if (point := parse_checkpoint(line)) is not None)
    return last, next((one for one in points if one.tenant == tenant and is_signed_by(one, keys.values())), None)


def _home_keys(state: Path) -> dict[str, bytes]:
    """The public keys of this home by id; one that cannot be read is as one that is not here."""
    found: dict[str, bytes] = {}
    for file in public_key_files(state):
        try:
            raw = read_public_key(file)
        except HostError as error:
            _log.warning("%s", error)
        else:
            found[key_id(raw)] = raw
    return found


def _require_signed_row(tx: Transaction, last: Checkpoint) -> None:
    row = tx.one("SELECT hash FROM ledger WHERE tenant = ? AND seq = ?", (last.tenant, last.to_seq))
    if row is None:
        raise ChainError("truncated", f"rows up to {last.to_seq:,} were signed at {last.at}, and that one is not here")
    if row["hash"].hex() != last.head:
        raise ChainError("tampered", f"it is not the one that was signed at {last.at}", last.to_seq)


def _read_page(tx: Transaction, tenant: str, after: int) -> tuple[list[SealedEntry], ChainHead | None]:
    head = read_head(tx, tenant)
    return list(read_sealed(tx, tenant, after=after, limit=PAGE_ROWS)), ChainHead(*head) if head else None


def _tenants_with_heads(tx: Transaction) -> list[str]:
    return [row["tenant"] for row in tx.all("SELECT tenant FROM ledger_heads")]


def _broken_chain_error(tenant: str, wrong: ChainError) -> HostError:
    where = f"row {wrong.seq:,}: " if wrong.seq is not None else ""
    return HostError(
        f"the ledger of {tenant} is not what was recorded: {where}{wrong.what}",
        code="ledger.broken",
        hint="see how far it goes: paddock ledger verify; calls are taken again once the ledger is whole",
        details={"tenant": tenant, "verdict": wrong.verdict, "seq": wrong.seq},
    )
