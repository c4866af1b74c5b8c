"""Verifying the chains of a database: pages of rows, and the files of checkpoints, for the pure part in `verify.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from paddock.core.errors import HostError, PaddockError
from paddock.ledger.anchors import Noted, anchors
from paddock.ledger.chain import Sealed
from paddock.ledger.checkpoint import checkpoint_file, whole_lines
from paddock.ledger.feed import head_of, last_seq, sealed
from paddock.ledger.keys import home_key_files, key_id, public_key_file, read_public_key
from paddock.ledger.verify import Finding, Head, Walk, Wrong
from paddock.ledger.whose import Kept, about, everyone, read_kept, require_known
from paddock.store.database import DirectDatabase, Transaction

PAGE = 2_000

Report = Callable[[str, int, int], None]
"""Told how far it is: tenant, rows looked at, rows there are."""


def verify_ledger(
    database: DirectDatabase,
    state: Path,
    *,
    tenant: str | None = None,
    anchor_files: Sequence[Path] = (),
    key_files: Sequence[Path] = (),
    report: Report | None = None,
) -> list[Finding]:
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
        kept = read_kept(anchor_files)
        if tenant is not None:
            require_known(database, state, tenant, kept)
        whose = [tenant] if tenant is not None else everyone(database, state, kept)
    except HostError as error:
        return [Finding(tenant or "-", "unreadable", error.message)]
    if tenant is not None and kept and not any(about(tenant, kept).values()):
        return [Finding(tenant, "unreadable", f"{', '.join(kept)} holds no checkpoint of this tenant")]
    found = [_verify(database, state, one, about(one, kept), key_files, report) for one in whose]
    if tenant is None and all(finding.empty for finding in found) and home_key_files(state):
        what = "there is a key that has signed checkpoints, and neither they nor what they were over are here"
        found.append(Finding("-", "truncated", what))
    return found


def _verify(
    database: DirectDatabase,
    state: Path,
    tenant: str,
    others: Kept,
    key_files: Sequence[Path],
    report: Report | None,
) -> Finding:
    try:
        own = whole_lines(checkpoint_file(state, tenant))
        files = key_files or home_key_files(state)
        if not files and (own or any(others.values())):
            files = [public_key_file(state)]  # which is missing, and that is said
        keys = [read_public_key(file) for file in files]
        noted = database.read(lambda tx: _noted(tx, tenant))
        if database.engine == "postgresql":  # other nodes sign too, and their files are not here
            ours = {key_id(key) for key in keys}
            noted = [one for one in noted if one.key_id in ours]
        walk = Walk(tenant, anchors(tenant, own, others, keys, noted))
        there = database.read(lambda tx: last_seq(tx, tenant))
    except PaddockError as error:
        return Finding(tenant, "unreadable", error.message)
    try:
        while True:
            rows, head = _page(database, tenant, walk.seq)
            for row in rows:
                walk.step(row)
            if report is not None:
                report(tenant, walk.seq, max(there, walk.seq))
            if len(rows) < PAGE:
                walk.end(head)
                return walk.found(None)
    except Wrong as wrong:
        return walk.found(wrong)
    except PaddockError as error:
        return walk.found(Wrong("unreadable", error.message))


def _page(database: DirectDatabase, tenant: str, after: int) -> tuple[list[Sealed], Head | None]:
    """Some rows, and the head as it was at that moment."""

    def unit(tx: Transaction, limit: int = PAGE, after: int = after) -> tuple[list[Sealed], Head | None]:
        head = head_of(tx, tenant)
        return list(sealed(tx, tenant, after=after, limit=limit)), Head(*head) if head else None

    try:
        return database.read(unit)
    except UnicodeDecodeError:
        # A text that is none, which only somebody else can have put there; one at a time says in which row.
        for seq in range(after, after + PAGE):
            try:
                database.read(lambda tx, seq=seq: unit(tx, 1, seq))
            except UnicodeDecodeError:
                raise Wrong("tampered", "the row holds what is no text", seq + 1) from None
        raise


def _noted(tx: Transaction, tenant: str) -> list[Noted]:
    found = tx.all("SELECT key_id, to_seq FROM ledger_checkpoints WHERE tenant = ? ORDER BY key_id", (tenant,))
    return [Noted(**row) for row in found]
