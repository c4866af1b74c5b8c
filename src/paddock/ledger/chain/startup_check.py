"""Verifies the rows after the last checkpoint: when a daemon starts, and when a person checks this machine.

Rows before a checkpoint are protected by its signature; `verify` checks whole chains. Later rows are protected by
nothing outside the database, and the next checkpoint would sign them as they stand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from pathlib import Path

from paddock.core.action import Action
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
from paddock.ledger.read.entries import (
    SEALED_PAGE_ROWS,
    open_chain,
    read_hash,
    read_head,
    read_row_before_first,
    read_sealed,
)
from paddock.ledger.read.rows import ChainRows
from paddock.store.database import Database, Transaction

_log = logging.getLogger("paddock.ledger")


async def verify_since_checkpoint(
    database: Database,
    state: Path,
    broken: MutableMapping[str, PaddockError],
    warn: Callable[[str], None] = _log.warning,
) -> None:
    """Fill `broken` with each tenant whose chain does not continue correctly from its last checkpoint.

    Args:
        database: The database with the chains.
        state: The directory of this home's checkpoints and keys.
        broken: Filled by tenant.
        warn: Receives the reason where a chain could not be verified.
    """
    try:
        tenants = sorted({*await database.read(_tenants_with_heads), *tenants_in_file_names(state)})
    except (PaddockError, OSError) as error:
        warn(f"the end of the ledger was not verified: {error}")
        return
    for tenant in tenants:
        try:
            chain_error = await _find_error(database, state, tenant)
        except (PaddockError, OSError) as error:
            # Says nothing about the chain itself: the next checkpoint meets the same error and reports it.
            warn(f"the end of the ledger of {tenant} was not verified: {error}")
            continue
        if chain_error is not None:
            broken[tenant] = _broken_chain_error(tenant, chain_error)
            _log.error("%s", broken[tenant].message)


async def _find_error(database: Database, state: Path, tenant: str) -> ChainError | None:
    verifier = ChainVerifier(tenant, Anchors())
    try:
        row_before_first = await database.read(lambda tx: read_row_before_first(tx, tenant))
        if row_before_first is not None:
            verifier.check_rows([row_before_first])
        last, trusted = await asyncio.to_thread(_last_checkpoints, state, tenant)
        for checkpoint in (last, trusted):
            if checkpoint is not None:
                await database.read(lambda tx, checkpoint=checkpoint: _require_signed_row(tx, checkpoint))
        if trusted is not None:
            verifier.seq, verifier.last = trusted.to_seq, bytes.fromhex(trusted.head)
        chain = await database.read(lambda tx: open_chain(tx, tenant))
        while True:
            rows, head = await database.read(lambda tx, after=verifier.seq: _read_page(tx, chain, after))
            await asyncio.to_thread(verifier.check_rows, rows)
            if len(rows) < SEALED_PAGE_ROWS:
                verifier.check_head(head)
                return None
    except ChainError as error:
        return error
    except UnicodeDecodeError:
        return ChainError("tampered", "a row holds what is no text", verifier.seq + 1)


def _last_checkpoints(state: Path, tenant: str) -> tuple[Checkpoint | None, Checkpoint | None]:
    """Return the last checkpoint, and the last one that a key of this home signed.

    Rows after the second are protected by nothing. The two differ only where the last line is invalid or names a key
    that is not here. Anybody can write such a line, so it must not exempt a chain from the check.
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
    checkpoints = (
        checkpoint
        for line in reversed(read_checkpoint_lines(file))
        if (checkpoint := parse_checkpoint(line)) is not None
    )
    return last, next(
        (
            checkpoint
            for checkpoint in checkpoints
            if checkpoint.tenant == tenant and is_signed_by(checkpoint, keys.values())
        ),
        None,
    )


def _home_keys(state: Path) -> dict[str, bytes]:
    """Return the public keys of this home by id. A key that cannot be read counts as missing."""
    keys: dict[str, bytes] = {}
    for file in public_key_files(state):
        try:
            raw = read_public_key(file)
        except HostError as error:
            _log.warning("%s", error)
        else:
            keys[key_id(raw)] = raw
    return keys


def _require_signed_row(tx: Transaction, checkpoint: Checkpoint) -> None:
    found = read_hash(tx, checkpoint.tenant, checkpoint.to_seq)
    if found is None:
        raise ChainError(
            "truncated", f"rows up to {checkpoint.to_seq:,} were signed at {checkpoint.at}, and that one is not here"
        )
    if found.hex() != checkpoint.head:
        raise ChainError("tampered", f"it is not the one that was signed at {checkpoint.at}", checkpoint.to_seq)


def _read_page(tx: Transaction, chain: ChainRows, after: int) -> tuple[list[SealedEntry], ChainHead | None]:
    head = read_head(tx, chain.tenant)
    return read_sealed(tx, chain, after=after, limit=SEALED_PAGE_ROWS), ChainHead(*head) if head else None


def _tenants_with_heads(tx: Transaction) -> list[str]:
    return [row["tenant"] for row in tx.all("SELECT tenant FROM ledger_heads")]


def _broken_chain_error(tenant: str, error: ChainError) -> HostError:
    where = f"row {error.seq:,}: " if error.seq is not None else ""
    return HostError(
        f"the ledger of {tenant} is not what was recorded: {where}{error.what}",
        code="ledger.broken",
        hint="calls are rejected until the ledger is intact again",
        action=Action.of("ledger.verify"),
        details={"tenant": tenant, "verdict": error.verdict, "seq": error.seq},
    )
