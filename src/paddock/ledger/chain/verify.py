"""Verifies the chains of a database: reads pages of rows and checkpoint files for the pure `ChainVerifier`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from paddock.core.action import Action
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
from paddock.ledger.chain.part_processes import part_processes, split_chain
from paddock.ledger.chain.signing_key import key_id, public_key_file, public_key_files, read_public_key
from paddock.ledger.chain.verifier import ChainError, ChainFinding, ChainHead, ChainVerifier
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.entries import (
    last_seq,
    open_chain,
    read_head,
    read_row_before_first,
    read_sealed,
    sealed_page_rows,
)
from paddock.ledger.read.rows import ChainRows
from paddock.ledger.read.time_ranges import read_noted_times
from paddock.store.database import DirectDatabase, Transaction

VerifyProgress = Callable[[str, int, int], None]
"""Progress callback: tenant, rows checked, rows in total."""
_REPORT_ROWS: Final = 2_000  # between two calls of it


def verify_ledger(
    database: DirectDatabase,
    state: Path,
    *,
    tenant: str | None = None,
    anchor_files: Sequence[Path] = (),
    anchor_lines: AnchorLines | None = None,
    key_files: Sequence[Path] = (),
    report: VerifyProgress | None = None,
    address: str | Path | None = None,
) -> list[ChainFinding]:
    """Verify one tenant's chain, or all of them.

    Args:
        database: The database that holds the rows.
        state: The directory of this home's checkpoints and public key.
        tenant: The tenant to verify; all tenants if None.
        anchor_files: Copies of checkpoints that were kept elsewhere.
        anchor_lines: More such copies, read already.
        key_files: Public keys to trust; this home's own if none is given.
        report: Progress callback.
        address: Where the database is opened once more: parts of a long chain are then verified in processes of their
            own. None leaves the other processors to others.

    Raises:
        NotFound: there is no such tenant.
    """
    try:
        copies: AnchorLines = {**read_anchor_files(anchor_files), **(anchor_lines or {})}
        if tenant is not None:
            require_chain(database, state, tenant, copies)
        tenants = [tenant] if tenant is not None else list_chain_tenants(database, state, copies)
    except HostError as error:
        return [ChainFinding(tenant or "-", "unreadable", error.message)]
    if tenant is not None and copies and not any(lines_for_tenant(tenant, copies).values()):
        return [ChainFinding(tenant, "unreadable", f"{', '.join(copies)} holds no checkpoint of this tenant")]
    findings = [
        _verify_tenant(database, state, one, lines_for_tenant(one, copies), key_files, report, address)
        for one in tenants
    ]
    if tenant is None and all(finding.empty for finding in findings) and public_key_files(state):
        what = "there is a key that has signed checkpoints, and neither they nor what they were over are here"
        findings.append(ChainFinding("-", "truncated", what))
    return findings


def _verify_tenant(
    database: DirectDatabase,
    state: Path,
    tenant: str,
    others: AnchorLines,
    key_files: Sequence[Path],
    report: VerifyProgress | None,
    address: str | Path | None,
) -> ChainFinding:
    try:
        own = read_checkpoint_lines(checkpoint_file(state, tenant))
        files = key_files or public_key_files(state)
        if not files and (own or any(others.values())):
            files = [public_key_file(state)]  # missing; reading it reports that
        keys = [read_public_key(file) for file in files]
        recorded = database.read(lambda tx: _recorded_checkpoints(tx, tenant))
        if database.engine == "postgresql":  # other nodes sign too; their files are not here
            own_key_ids = {key_id(key) for key in keys}
            recorded = [one for one in recorded if one.key_id in own_key_ids]
        verifier = ChainVerifier(tenant, build_anchors(tenant, own, others, keys, recorded))
        chain_rows, row_count = database.read(lambda tx: (open_chain(tx, tenant), last_seq(tx, tenant)))
    except PaddockError as error:
        return ChainFinding(tenant, "unreadable", error.message)
    ends = [] if address is None else split_chain(row_count, verifier.anchors.checkpoints)
    try:
        _check_before_first(database, verifier)
        if len(ends) > 1:
            with part_processes(str(address), tenant, ends, verifier.anchors.checkpoints) as processes:
                _verify_rows(database, chain_rows, verifier, ends[0], report and _scaled(report, len(ends), row_count))
                for process in processes:
                    part = process.result()
                    if part is None or not verifier.add_part(part):
                        break  # its rows are verified below, which names the one that is wrong
        return _verify_rows(database, chain_rows, verifier, None, report)
    except ChainError as error:
        return verifier.finding(error)
    except PaddockError as error:
        return verifier.finding(ChainError("unreadable", error.message))


def _verify_rows(
    database: DirectDatabase,
    chain: ChainRows,
    verifier: ChainVerifier,
    until: int | None,
    report: VerifyProgress | None,
) -> ChainFinding:
    """Verify rows up to a number, or to the end of the chain.

    Raises:
        ChainError: the chain is not sound.
    """
    page_rows = sealed_page_rows(database)
    reported = total = verifier.seq
    while until is None or verifier.seq < until:
        limit = page_rows if until is None else min(page_rows, until - verifier.seq)
        rows, head, times = _read_page(database, chain, verifier.seq, limit)
        verifier.check_rows(rows)
        at_end = len(rows) < limit
        if report is not None and (at_end or verifier.seq - reported >= _REPORT_ROWS):
            reported, total = verifier.seq, max(total, head.seq if head else 0, verifier.seq)
            report(verifier.tenant, verifier.seq, total)
        if at_end:
            verifier.check_head(head)
            verifier.check_times(times)
            break
    return verifier.finding(None)


def _scaled(report: VerifyProgress, parts: int, row_count: int) -> VerifyProgress:
    """The progress of all parts, as far as that of the first one tells."""
    return lambda tenant, seq, _: report(tenant, min(seq * parts, row_count), row_count)


def _check_before_first(database: DirectDatabase, verifier: ChainVerifier) -> None:
    try:
        row = database.read(lambda tx: read_row_before_first(tx, verifier.tenant))
    except UnicodeDecodeError:
        raise ChainError("tampered", "a row was put before the first, and holds what is no text", 0) from None
    if row is not None:
        verifier.check_rows([row])


class _Page(NamedTuple):
    rows: list[SealedEntry]
    head: ChainHead | None
    times: dict[int, tuple[str, str]]


def _read_page(database: DirectDatabase, chain: ChainRows, after: int, limit: int) -> _Page:
    """Return a page of rows with the head, and after the last row the times that are noted, all at one moment."""

    def read_rows(tx: Transaction, limit: int = limit, after: int = after) -> _Page:
        head = read_head(tx, chain.tenant)
        rows = read_sealed(tx, chain, after=after, limit=limit)
        times = read_noted_times(tx, chain.chain) if len(rows) < limit else {}
        return _Page(rows, ChainHead(*head) if head else None, times)

    try:
        return database.read(read_rows)
    except UnicodeDecodeError:
        # Bytes that are not text, written by another program. Reading row by row finds which row it is.
        for seq in range(after, after + limit):
            try:
                database.read(lambda tx, seq=seq: read_rows(tx, 1, seq))
            except UnicodeDecodeError:
                raise ChainError("tampered", "the row holds what is no text", seq + 1) from None
        raise


def _recorded_checkpoints(tx: Transaction, tenant: str) -> list[RecordedCheckpoint]:
    rows = tx.all("SELECT key_id, to_seq FROM ledger_checkpoints WHERE tenant = ? ORDER BY key_id", (tenant,))
    return [RecordedCheckpoint(**row) for row in rows]


def find_altered(tx: Transaction, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Return the entries that do not fit their neighbouring rows: they or their neighbours were changed."""
    return [entry for entry in entries if _is_altered(tx, entry)]


def _is_altered(tx: Transaction, entry: LedgerEntry) -> bool:
    try:
        rows = read_sealed(tx, open_chain(tx, entry.tenant), after=max(entry.seq - 2, 0), limit=3)
    except UnicodeDecodeError:
        return True
    verifier = ChainVerifier(entry.tenant, Anchors())
    if entry.seq > 1:
        previous = rows.pop(0) if rows else None
        if previous is None or previous.seq != entry.seq - 1:
            return True
        verifier.seq, verifier.last = previous.seq, previous.hash
    try:
        # The next row is checked too: a changed row can get a new hash, but the next row's hash covers the old one.
        verifier.check_rows(rows)
    except ChainError:
        return True
    return verifier.seq < entry.seq or (
        verifier.seq == entry.seq and read_head(tx, entry.tenant) != (verifier.seq, verifier.last)
    )


def require_unaltered(tx: Transaction, entries: Iterable[LedgerEntry]) -> None:
    """Refuse to rely on entries that have been changed.

    Raises:
        HostError: an entry, or a neighbour of it, was changed.
    """
    for entry in find_altered(tx, entries):
        raise HostError(altered_text(entry), code="ledger.broken", action=Action.of("ledger.verify"))


def altered_text(entry: LedgerEntry) -> str:
    """Return the message about an altered entry."""
    return f"row {entry.seq:,} of the ledger, or one beside it, is not what was recorded: it was modified"
