"""Creates checkpoints: every minute with new entries, every thousand rows, and at a clean shutdown."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from paddock.core.action import Action
from paddock.core.clock import Clock
from paddock.core.errors import HostError, PaddockError, StoreUnavailable
from paddock.ledger.chain.checkpoint import (
    NO_PREVIOUS,
    Checkpoint,
    checkpoint_file,
    last_checkpoint_in,
    read_last_checkpoint,
    sign_checkpoint,
)
from paddock.ledger.chain.merkle import MerkleTree
from paddock.ledger.chain.signing_key import key_id, load_signing_key, require_successor
from paddock.ledger.read.entries import read_hash, read_hashes
from paddock.store.database import Database, Transaction
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS, sync_directory

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CHECKPOINT_ROWS = 1_000
CHECKPOINT_INTERVAL_S = 60.0
_HASH_PAGE_ROWS = 10_000
_HASH_BATCH = 64  # leaves hashed before yielding the GIL; each takes a few microseconds
_SEVERAL, _MAX_ERRORS_SHOWN = 2, 5


class Checkpointer(Struct):
    """Writes the checkpoints of all chains in a database to the files of one home.

    `failing` is the error of the last attempt, combined over all chains that failed. Calls go on meanwhile: the chain
    itself is written, and the next checkpoint covers everything since the last. `ahead` is the highest number of
    unsigned rows among the chains that can be signed. Chains in `broken` get no checkpoints.
    """

    database: Database
    clock: Clock
    state: Path
    broken: Mapping[str, PaddockError] = field(default_factory=dict[str, PaddockError])
    failing: PaddockError | None = None
    ahead: int = 0
    _failures: dict[str, PaddockError] = field(default_factory=dict[str, PaddockError])
    _signed_to: dict[str, int] = field(default_factory=dict[str, int])
    _key: Ed25519PrivateKey | None = None

    async def checkpoint_due_chains(self, min_rows: int = 1, *, max_age_s: float | None = None) -> int:
        """Create a checkpoint for each chain that grew by `min_rows`; return how many were created.

        One new row is enough for a chain whose last attempt failed or whose last checkpoint is older than `max_age_s`.
        A chain that cannot be signed does not keep others from being signed.
        """
        try:
            heads = await self.database.read(_read_heads)
        except PaddockError as error:
            self.failing, self._failures = error, dict.fromkeys(self._signed_to, error)
            return 0
        count, earlier_failures = 0, self._failures
        self.ahead, self._failures = 0, {}
        for tenant, seq in heads:
            try:
                due_rows = 1 if tenant in earlier_failures or self._is_stale(tenant, max_age_s) else min_rows
                count += await self._checkpoint_if_due(tenant, seq, due_rows)
                self.ahead = max(self.ahead, seq - self._signed_to[tenant])
            except (PaddockError, OSError) as error:
                self._failures[tenant] = error if isinstance(error, PaddockError) else _write_error(error, self.state)
        self.failing = _combine_errors(self._failures.values())
        return count

    async def _checkpoint_if_due(self, tenant: str, seq: int, min_rows: int) -> bool:
        if tenant in self.broken:
            raise self.broken[tenant]
        if tenant not in self._signed_to:
            last = last_checkpoint_in(checkpoint_file(self.state, tenant))
            self._signed_to[tenant] = last.to_seq if last else 0
        return seq - self._signed_to[tenant] >= min_rows and await self._create_checkpoint(tenant)

    def _is_stale(self, tenant: str, max_age_s: float | None) -> bool:
        if max_age_s is None:
            return False
        try:
            modified_at = checkpoint_file(self.state, tenant).stat().st_mtime
        except FileNotFoundError:
            return True
        return self.clock.now().timestamp() - modified_at > max_age_s

    async def _create_checkpoint(self, tenant: str) -> bool:
        if self._key is None:
            self._key = await asyncio.to_thread(load_signing_key, self.state)
        file = checkpoint_file(self.state, tenant)
        with _locked_file(file) as descriptor:
            if descriptor is None:
                return False  # another process of this home is creating it
            last, end = read_last_checkpoint(descriptor, file)
            signer = key_id(self._key.public_key().public_bytes_raw())
            if last is not None:
                require_successor(self.state, last.key_id, signer)
            first = last.to_seq + 1 if last else 1
            root, head, to_seq = await self._merkle_root(tenant, first, last)
            if to_seq >= first:
                checkpoint = sign_checkpoint(
                    self._key,
                    Checkpoint(
                        tenant=tenant,
                        node=os.uname().nodename,
                        from_seq=first,
                        to_seq=to_seq,
                        root=root.hex(),
                        head=head.hex(),
                        previous=last.digest() if last else NO_PREVIOUS,
                        at=self.clock.now().isoformat(),
                        key_id=signer,
                    ),
                )
                # Duplicated: if we are cancelled, the thread goes on, and our descriptor number may be reused.
                await asyncio.to_thread(_append_line, os.dup(descriptor), file, checkpoint, end)
                await self.database.write(lambda tx: _record_checkpoint(tx, checkpoint))
            self._signed_to[tenant] = to_seq
            return to_seq >= first

    async def _merkle_root(self, tenant: str, first: int, last: Checkpoint | None) -> tuple[bytes, bytes, int]:
        """Return the Merkle root over all rows from `first` on, the last row's hash and its number."""
        tree, seq, head = MerkleTree(), first - 1, b""
        if last is not None:
            await self.database.read(lambda tx: _require_unchanged(tx, last))
        while True:
            hashes = await self.database.read(lambda tx, after=seq: _read_hashes(tx, tenant, after))
            await asyncio.to_thread(_add_leaves, tree, hashes)  # a thousand hashes would delay calls on this loop
            seq += len(hashes)
            head = hashes[-1] if hashes else head
            if len(hashes) < _HASH_PAGE_ROWS:
                return tree.root(), head, seq


def _add_leaves(tree: MerkleTree, hashes: list[bytes]) -> None:
    for begin in range(0, len(hashes), _HASH_BATCH):
        tree.add(*hashes[begin : begin + _HASH_BATCH])
        time.sleep(0)  # releases the GIL, for which a call would otherwise wait five milliseconds


def _read_heads(tx: Transaction) -> list[tuple[str, int]]:
    return [(row["tenant"], row["seq"]) for row in tx.all("SELECT tenant, seq FROM ledger_heads ORDER BY tenant")]


def _read_hashes(tx: Transaction, tenant: str, after: int) -> list[bytes]:
    """Return the hashes of consecutive rows."""
    rows = read_hashes(tx, tenant, after=after, limit=_HASH_PAGE_ROWS)
    if any(seq != after + offset for offset, (seq, _) in enumerate(rows, 1)):
        raise _broken_chain_error(tenant, "rows are missing")
    return [row_hash for _, row_hash in rows]


def _require_unchanged(tx: Transaction, last: Checkpoint) -> None:
    """Refuse to sign on top of a row that differs from the one signed before."""
    found = read_hash(tx, last.tenant, last.to_seq)
    if found is None or found.hex() != last.head:
        raise _broken_chain_error(last.tenant, f"row {last.to_seq:,} is not the one that was signed at {last.at}")


def _record_checkpoint(tx: Transaction, checkpoint: Checkpoint) -> None:
    tx.execute(
        "INSERT INTO ledger_checkpoints (tenant, key_id, to_seq, hash) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (tenant, key_id) DO UPDATE SET to_seq = excluded.to_seq, hash = excluded.hash",
        (checkpoint.tenant, checkpoint.key_id, checkpoint.to_seq, checkpoint.digest()),
    )


@contextmanager
def _locked_file(file: Path) -> Generator[int | None, None, None]:
    """Open the file exclusively for this process; yields None while another process has it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


def _append_line(descriptor: int, file: Path, checkpoint: Checkpoint, end: int) -> None:
    """Append the line, over an unfinished one if there is one. Closes the descriptor."""
    line = checkpoint.line() + b"\n"
    try:
        os.ftruncate(descriptor, end)
        _write_all(descriptor, line, end)
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, end)
        raise
    finally:
        os.close(descriptor)
    if not end:
        sync_directory(file.parent)


def _write_all(descriptor: int, line: bytes, offset: int) -> None:
    if os.pwrite(descriptor, line, offset) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _write_error(error: OSError, state: Path) -> PaddockError:
    full = error.errno in OUT_OF_SPACE_ERRNOS
    return StoreUnavailable(
        f"a checkpoint of the ledger cannot be written: {error.strerror}",
        code="store.full" if full else "ledger.checkpoints",
        hint=f"free some space: df -h {state}" if full else f"see who may write to {state / 'ledger'}",
    )


def _combine_errors(errors: Iterable[PaddockError]) -> PaddockError | None:
    """Combine the errors of all chains into one; equal messages appear once."""
    distinct = list({error.message: error for error in errors}.values())
    if len(distinct) < _SEVERAL:
        return distinct[0] if distinct else None
    messages = "; ".join(error.message for error in distinct[:_MAX_ERRORS_SHOWN])
    more = f"; and {len(distinct) - _MAX_ERRORS_SHOWN} more" if len(distinct) > _MAX_ERRORS_SHOWN else ""
    first = distinct[0]
    return HostError(messages + more, code=first.error_code, hint=first.hint, action=first.action)


def _broken_chain_error(tenant: str, reason: str) -> HostError:
    return HostError(
        f"the ledger of {tenant} is not what was signed: {reason}; it gets no further checkpoints",
        code="ledger.broken",
        action=Action.of("ledger.verify"),
    )
