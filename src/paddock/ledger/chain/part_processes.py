"""Verifies the parts of a long chain at the same time, each in a process of its own.

A row is checked against the hash of the row before it, which is in the database. So a part of a chain can be checked
alone, and continues the chain if the part before it ends with that hash. Where a part is not sound, or its process
fails, the caller checks the same rows itself and finds what is wrong in its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

import paddock
from paddock.ledger.chain.anchors import Anchors
from paddock.ledger.chain.checkpoint import Checkpoint
from paddock.ledger.chain.verifier import ChainError, ChainVerifier, VerifiedPart
from paddock.ledger.read.entries import open_chain, read_hash, read_sealed, sealed_page_rows
from paddock.store.database import DirectDatabase, open_direct

_MIN_PART_ROWS: Final = 50_000  # fewer are verified before another process has started
_MAX_PARTS: Final = 8


class _PartOrder(msgspec.Struct, frozen=True):
    """What a process is to verify: the rows behind one up to another, and the checkpoints over them."""

    address: str
    tenant: str
    after: int
    until: int
    checkpoints: tuple[Checkpoint, ...]


def split_chain(last_seq: int, checkpoints: Iterable[Checkpoint]) -> list[int]:
    """Return the last row of each part: of equal size, as far as no checkpoint is over rows of two parts."""
    parts = min(_count_processors(), _MAX_PARTS, last_seq // _MIN_PART_ROWS)
    ranges = sorted((one.from_seq, one.to_seq) for one in checkpoints)
    if ranges and max(last for _, last in ranges) > last_seq:
        return [last_seq]  # rows are missing that were signed; those added meanwhile must not take their place unseen
    ends: list[int] = []
    for number in range(1, parts):
        end = last_seq * number // parts
        for first, last in ranges:
            if first <= end < last:
                end = last
        ends.append(end)
    return [*sorted({end for end in ends if end < last_seq}), last_seq]


def _count_processors() -> int:
    return len(os.sched_getaffinity(0))


class PartProcess:
    """A process that verifies one part."""

    def __init__(self, order: _PartOrder) -> None:
        # Of this very program, wherever it was started from.
        environ = os.environ | {"PYTHONPATH": str(Path(paddock.__file__).parents[1])}
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
        )
        assert self._process.stdin is not None
        try:
            with suppress(BrokenPipeError), self._process.stdin as stdin:
                stdin.write(msgspec.json.encode(order))
        except BaseException:  # an interrupt; nothing else would end the process
            self.stop()
            raise

    def result(self) -> VerifiedPart | None:
        """Wait for what was found; None if the part is not sound, or the process could not verify it."""
        assert self._process.stdout is not None
        found = self._process.stdout.read()
        if self._process.wait():
            return None
        return msgspec.json.decode(found, type=VerifiedPart)

    def stop(self) -> None:
        """End the process, whatever it is doing; it only reads."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def part_processes(
    address: str, tenant: str, ends: Sequence[int], checkpoints: Sequence[Checkpoint]
) -> Generator[list[PartProcess], None, None]:
    """Verify the parts of a chain behind the first one, for as long as the block runs.

    Args:
        address: Where a process opens the database.
        tenant: The owner of the chain.
        ends: The last row of each part.
        checkpoints: The checkpoints to compare with.
    """
    processes: list[PartProcess] = []
    try:
        for after, until in pairwise(ends):
            over_part = tuple(one for one in checkpoints if after < one.from_seq and one.to_seq <= until)
            try:
                processes.append(PartProcess(_PartOrder(address, tenant, after, until, over_part)))
            except OSError:
                break  # no process can be started; the caller verifies these rows
        yield processes
    finally:
        for process in processes:
            process.stop()


def _verify_part(database: DirectDatabase, order: _PartOrder) -> VerifiedPart:
    """Verify a part.

    Raises:
        ChainError: it is not sound.
    """
    chain, before = database.read(lambda tx: (open_chain(tx, order.tenant), read_hash(tx, order.tenant, order.after)))
    if before is None:
        raise ChainError("tampered", "the row is missing", order.after)
    verifier = ChainVerifier(order.tenant, Anchors(order.checkpoints), order.after, before)
    page_rows, parent = sealed_page_rows(database), os.getppid()
    while verifier.seq < order.until:
        if os.getppid() != parent:
            sys.exit(1)  # the process that waits for this was killed
        limit = min(page_rows, order.until - verifier.seq)
        rows = database.read(lambda tx, limit=limit: read_sealed(tx, chain, after=verifier.seq, limit=limit))
        if not rows:
            raise ChainError("truncated", "rows are missing", verifier.seq + 1)
        verifier.check_rows(rows)
    return VerifiedPart(before, verifier.seq, verifier.last, verifier.erased, verifier.claimed, verifier.times)


def _main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=_PartOrder)
    with open_direct(order.address, only_connection=False) as database:
        part = _verify_part(database, order)
    sys.stdout.buffer.write(msgspec.json.encode(part))


if __name__ == "__main__":
    _main()
