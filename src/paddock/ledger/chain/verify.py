"""Verifying the chains of a database: pages of rows, and the files of checkpoints, for the pure part in `verify.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from paddock.core.errors import HostError, PaddockError
from paddock.ledger.chain.anchors import Anchors, RecordedCheckpoint, build_anchors
from paddock.ledger.chain.chains import (
    AnchorLines,
    lines_for_tenant,
    list_chain_tenants,
    read_anchor_files,
    require_chain,
)
from paddock.ledger.chain.checkpoint import checkpoint_file, read_checkpoint_lines
from paddock.ledger.chain.signing_key import key_id, public_key_file, public_key_files, read_public_key
from paddock.ledger.chain.verifier import ChainError, ChainFinding, ChainHead, ChainVerifier
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.entries import last_seq, read_head, read_sealed
from paddock.store.database import DirectDatabase, Transaction

PAGE_ROWS = 2_000

VerifyProgress = Callable[[str, int, int], None]
"""Told how far it is: tenant, rows looked at, rows there are."""


def verify_ledger(
    database: DirectDatabase,
    state: Path,
    *,
    tenant: str | None = None,
    anchor_files: Sequence[Path] = (),
    key_files: Sequence[Path] = (),
    report: VerifyProgress | None = None,
) -> list[ChainFinding]:
    """Verify one tenant's chain, or all of them.

    Args:
        database: Where the rows are.
        state: Where this home's checkpoints and public key are.
        tenant: Whose; everyone's where it is not said.
        anchor_files: Checkpoints that were kept elsewhere.
        key_files: Public keys to believe; this home's own where none is given.
        report: Told how far it is.

    Raises:
        NotFound: nobody goes by the name of this tenant.
    """
    try:
        kept = read_anchor_files(anchor_files)
        if tenant is not None:
            require_chain(database, state, tenant, kept)
        whose = [tenant] if tenant is not None else list_chain_tenants(database, state, kept)
    except HostError as error:
        return [ChainFinding(tenant or "-", "unreadable", error.message)]
    if tenant is not None and kept and not any(lines_for_tenant(tenant, kept).values()):
        return [ChainFinding(tenant, "unreadable", f"{', '.join(kept)} holds no checkpoint of this tenant")]
    found = [_verify_tenant(database, state, one, lines_for_tenant(one, kept), key_files, report) for one in whose]
    if tenant is None and all(finding.empty for finding in found) and public_key_files(state):
        what = "there is a key that has signed checkpoints, and neither they nor what they were over are here"
        found.append(ChainFinding("-", "truncated", what))
    return found


def _verify_tenant(
    database: DirectDatabase,
    state: Path,
    tenant: str,
    others: AnchorLines,
    key_files: Sequence[Path],
    report: VerifyProgress | None,
) -> ChainFinding:
    try:
        own = read_checkpoint_lines(checkpoint_file(state, tenant))
        files = key_files or public_key_files(state)
        if not files and (own or any(others.values())):
            files = [public_key_file(state)]  # which is missing, and that is said
        keys = [read_public_key(file) for file in files]
        noted = database.read(lambda tx: _recorded_checkpoints(tx, tenant))
        if database.engine == "postgresql":  # other nodes sign too, and their files are not here
            ours = {key_id(key) for key in keys}
            noted = [one for one in noted if one.key_id in ours]
        walk = ChainVerifier(tenant, build_anchors(tenant, own, others, keys, noted))
        there = database.read(lambda tx: last_seq(tx, tenant))
    except PaddockError as error:
        return ChainFinding(tenant, "unreadable", error.message)
    try:
        while True:
            rows, head = _read_page(database, tenant, walk.seq)
            for row in rows:
                walk.check_row(row)
            if report is not None:
                report(tenant, walk.seq, max(there, walk.seq))
            if len(rows) < PAGE_ROWS:
                walk.check_head(head)
                return walk.finding(None)
    except ChainError as wrong:
        return walk.finding(wrong)
    except PaddockError as error:
        return walk.finding(ChainError("unreadable", error.message))


def _read_page(database: DirectDatabase, tenant: str, after: int) -> tuple[list[SealedEntry], ChainHead | None]:
    """Some rows, and the head as it was at that moment."""

    def unit(tx: Transaction, limit: int = PAGE_ROWS, after: int = after) -> tuple[list[SealedEntry], ChainHead | None]:
        head = read_head(tx, tenant)
        return list(read_sealed(tx, tenant, after=after, limit=limit)), ChainHead(*head) if head else None

    try:
        return database.read(unit)
    except UnicodeDecodeError:
        # A text that is none, which only somebody else can have put there; one at a time says in which row.
        for seq in range(after, after + PAGE_ROWS):
            try:
                database.read(lambda tx, seq=seq: unit(tx, 1, seq))
            except UnicodeDecodeError:
                raise ChainError("tampered", "the row holds what is no text", seq + 1) from None
        raise


def _recorded_checkpoints(tx: Transaction, tenant: str) -> list[RecordedCheckpoint]:
    found = tx.all("SELECT key_id, to_seq FROM ledger_checkpoints WHERE tenant = ? ORDER BY key_id", (tenant,))
    return [RecordedCheckpoint(**row) for row in found]


def find_altered(tx: Transaction, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Those that do not fit between the rows beside them: they were changed since they were recorded, or these were."""
    return [entry for entry in entries if _is_altered(tx, entry)]


def _is_altered(tx: Transaction, entry: LedgerEntry) -> bool:
    try:
        rows = list(read_sealed(tx, entry.tenant, after=max(entry.seq - 2, 0), limit=3))
    except UnicodeDecodeError:
        return True
    walk = ChainVerifier(entry.tenant, Anchors())
    if entry.seq > 1:
        before = rows.pop(0) if rows else None
        if before is None or before.seq != entry.seq - 1:
            return True
        walk.seq, walk.last = before.seq, before.hash
    try:
        # With the one after it: whoever changes a row can write its hash anew, and that of the next one is over it.
        for row in rows:
            walk.check_row(row)
    except ChainError:
        return True
    return walk.seq < entry.seq or (walk.seq == entry.seq and read_head(tx, entry.tenant) != (walk.seq, walk.last))


def require_unaltered(tx: Transaction, entries: Iterable[LedgerEntry]) -> None:
    """Say nothing on the word of an entry that somebody has changed.

    Raises:
        HostError: there is one.
    """
    for entry in find_altered(tx, entries):
        raise HostError(altered_text(entry), code="ledger.broken", hint="see how far it goes: paddock ledger verify")


def altered_text(entry: LedgerEntry) -> str:
    """What to say of one that was altered."""
    return f"row {entry.seq:,} of the ledger, or one beside it, is not what was recorded: somebody has changed it"
