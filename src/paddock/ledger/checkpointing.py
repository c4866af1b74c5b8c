"""Making checkpoints: each minute in which something was recorded, each thousand rows, and at a clean end."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.core.clock import Clock
from paddock.core.errors import HostError, PaddockError, StoreUnavailable
from paddock.ledger.checkpoint import NO_PREVIOUS, Checkpoint, checkpoint_file, last_checkpoint, last_in, signed
from paddock.ledger.keys import key_id, require_successor, signing_key
from paddock.ledger.merkle import Tree
from paddock.store.database import Database, Transaction
from paddock.store.durable import sync_directory
from paddock.store.space import OUT_OF_SPACE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

EVERY_ROWS = 1_000
EVERY_SECONDS = 60.0
_PAGE = 10_000
_AT_ONCE = 64  # hashes, each of which takes a few microseconds
_SEVERAL, _MOST_TOLD = 2, 5


@dataclass(slots=True)
class Checkpointer:
    """Writes the checkpoints of all chains in a database, into the files of one home.

    `failing` says why the last try came to nothing, for each chain of which it did. Calls go on meanwhile: the chain
    itself is written, and the next checkpoint is over all that has come since the last. `ahead` is how many rows the
    longest wait for one, of those chains that can have it. Those in `broken` get none.
    """

    database: Database
    clock: Clock
    state: Path
    broken: Mapping[str, PaddockError] = field(default_factory=dict[str, PaddockError])
    failing: PaddockError | None = None
    ahead: int = 0
    _failures: dict[str, PaddockError] = field(default_factory=dict[str, PaddockError])
    _reached: dict[str, int] = field(default_factory=dict[str, int])
    _key: Ed25519PrivateKey | None = None

    async def look(self, least: int = 1, *, rested: float | None = None) -> int:
        """Make a checkpoint of each chain that has grown by so many rows; gives how many were made.

        Of a chain whose last try failed, or whose last checkpoint is older than `rested` seconds, as soon as it has
        grown at all. A chain of which none can be made keeps no other from its own.
        """
        try:
            heads = await self.database.read(_heads)
        except PaddockError as error:
            self.failing, self._failures = error, dict.fromkeys(self._reached, error)
            return 0
        made, before = 0, self._failures
        self.ahead, self._failures = 0, {}
        for tenant, seq in heads:
            try:
                enough = 1 if tenant in before or self._rested(tenant, rested) else least
                made += await self._look_at(tenant, seq, enough)
                self.ahead = max(self.ahead, seq - self._reached[tenant])
            except (PaddockError, OSError) as error:
                self._failures[tenant] = error if isinstance(error, PaddockError) else _refused(error, self.state)
        self.failing = _together(self._failures.values())
        return made

    async def _look_at(self, tenant: str, seq: int, least: int) -> bool:
        if tenant in self.broken:
            raise self.broken[tenant]
        if tenant not in self._reached:
            last = last_in(checkpoint_file(self.state, tenant))
            self._reached[tenant] = last.to_seq if last else 0
        return seq - self._reached[tenant] >= least and await self._make(tenant)

    def _rested(self, tenant: str, seconds: float | None) -> bool:
        if seconds is None:
            return False
        try:
            made = checkpoint_file(self.state, tenant).stat().st_mtime
        except FileNotFoundError:
            return True
        return self.clock.now().timestamp() - made > seconds

    async def _make(self, tenant: str) -> bool:
        if self._key is None:
            self._key = await asyncio.to_thread(signing_key, self.state)
        file = checkpoint_file(self.state, tenant)
        with _alone(file) as descriptor:
            if descriptor is None:
                return False  # another process of this home is at it
            last, end = last_checkpoint(descriptor, file)
            signer = key_id(self._key.public_key().public_bytes_raw())
            if last is not None:
                require_successor(self.state, last.key_id, signer)
            first = last.to_seq + 1 if last else 1
            root, head, to_seq = await self._over(tenant, first, last)
            if to_seq >= first:
                made = signed(
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
                # A copy: should we be cancelled, the thread goes on, and the number of ours is soon another file's.
                await asyncio.to_thread(_put, os.dup(descriptor), file, made, end)
                await self.database.write(lambda tx: _note(tx, made))
            self._reached[tenant] = to_seq
            return to_seq >= first

    async def _over(self, tenant: str, first: int, last: Checkpoint | None) -> tuple[bytes, bytes, int]:
        """The tree over all rows from the first on, and the last of them."""
        tree, seq, head = Tree(), first - 1, b""
        if last is not None:
            await self.database.read(lambda tx: _require_unchanged(tx, last))
        while True:
            hashes = await self.database.read(lambda tx, after=seq: _hashes(tx, tenant, after))
            await asyncio.to_thread(_grow, tree, hashes)  # a thousand hashes are felt by every call on this loop
            seq += len(hashes)
            head = hashes[-1] if hashes else head
            if len(hashes) < _PAGE:
                return tree.root(), head, seq


def _grow(tree: Tree, hashes: list[bytes]) -> None:
    for begin in range(0, len(hashes), _AT_ONCE):
        tree.add(*hashes[begin : begin + _AT_ONCE])
        time.sleep(0)  # lets go of the interpreter's lock, for which a call would wait five milliseconds otherwise


def _heads(tx: Transaction) -> list[tuple[str, int]]:
    return [(row["tenant"], row["seq"]) for row in tx.all("SELECT tenant, seq FROM ledger_heads ORDER BY tenant")]


def _hashes(tx: Transaction, tenant: str, after: int) -> list[bytes]:
    """Hashes of rows that follow each other."""
    found = tx.all(
        "SELECT seq, hash FROM ledger WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?", (tenant, after, _PAGE)
    )
    if any(row["seq"] != after + place for place, row in enumerate(found, 1)):
        raise _broken(tenant, "rows are missing")
    return [row["hash"] for row in found]


def _require_unchanged(tx: Transaction, last: Checkpoint) -> None:
    """Sign nothing on top of what is not what was signed before."""
    row = tx.one("SELECT hash FROM ledger WHERE tenant = ? AND seq = ?", (last.tenant, last.to_seq))
    if row is None or row["hash"].hex() != last.head:
        raise _broken(last.tenant, f"row {last.to_seq:,} is not the one that was signed at {last.at}")


def _note(tx: Transaction, made: Checkpoint) -> None:
    tx.execute(
        "INSERT INTO ledger_checkpoints (tenant, key_id, to_seq, hash) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (tenant, key_id) DO UPDATE SET to_seq = excluded.to_seq, hash = excluded.hash",
        (made.tenant, made.key_id, made.to_seq, made.digest()),
    )


@contextmanager
def _alone(file: Path) -> Generator[int | None, None, None]:
    """The file, open for this process alone; None while another process has it."""
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


def _put(descriptor: int, file: Path, made: Checkpoint, end: int) -> None:
    """Add the line, in the place of one that was never finished; closes what it was given."""
    line = made.line() + b"\n"
    try:
        os.ftruncate(descriptor, end)
        _write_whole(descriptor, line, end)
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, end)
        raise
    finally:
        os.close(descriptor)
    if not end:
        sync_directory(file.parent)


def _write_whole(descriptor: int, line: bytes, place: int) -> None:
    if os.pwrite(descriptor, line, place) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _refused(error: OSError, state: Path) -> PaddockError:
    full = error.errno in OUT_OF_SPACE
    return StoreUnavailable(
        f"a checkpoint of the ledger cannot be written: {error.strerror}",
        code="store.full" if full else "ledger.checkpoints",
        hint=f"free some space: df -h {state}" if full else f"see who may write to {state / 'ledger'}",
    )


def _together(errors: Iterable[PaddockError]) -> PaddockError | None:
    """One error that tells of all; what keeps several chains back in the same way is said once."""
    found = list({error.message: error for error in errors}.values())
    if len(found) < _SEVERAL:
        return found[0] if found else None
    told = "; ".join(error.message for error in found[:_MOST_TOLD])
    more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return HostError(told + more, code=found[0].error_code, hint=found[0].hint)


def _broken(tenant: str, reason: str) -> HostError:
    return HostError(
        f"the ledger of {tenant} is not what was signed: {reason}; it gets no further checkpoints",
        code="ledger.broken",
        hint="paddock ledger verify",
    )
