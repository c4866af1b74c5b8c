"""The ledger's lifespan in a running host: the writer, the start-up check and the checkpoint task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.ledger.chain.checkpointer import CHECKPOINT_INTERVAL_S, CHECKPOINT_ROWS, Checkpointer
from paddock.ledger.chain.startup_check import verify_since_checkpoint
from paddock.ledger.write.writer import LedgerWriter
from paddock.store.database import Database

RETRY_INTERVAL_S = 5.0  # until the next attempt after a failed checkpoint
VERIFY_TIMEOUT_S = 2.0  # after which calls are accepted although verification still runs
_SHUTDOWN_TIMEOUT_S = 10

_log = logging.getLogger("paddock.ledger")


@asynccontextmanager
async def open_ledger(
    database: Database, clock: Clock, random: Random, *, state: Path | None = None, long_running: bool = True
) -> AsyncGenerator[LedgerWriter, None]:
    """Run the ledger writer for as long as the block runs. Accepted entries are flushed on exit where possible.

    A long-running host first verifies the rows that follow the last checkpoints.

    Args:
        database: The database that holds the chains.
        clock: Source of the entries' times.
        random: Source of their ids and salts.
        state: The directory of checkpoints and their key. Without it no checkpoints are made.
        long_running: Whether the host stays up. The host of one command leaves the checkpoint to a later one, unless
            the last is older than a minute: a signature costs as much as the call.
    """
    writer = LedgerWriter(database, clock, random)
    tasks = [asyncio.create_task(writer.write_forever(), name="write the ledger")]
    checkpointer, verified = None, None
    if state is not None:
        checkpointer = Checkpointer(database, clock, state, broken=writer.broken)
        if long_running:
            verification = verify_since_checkpoint(database, state, writer.broken)
            tasks.append(verified := asyncio.create_task(verification, name="verify the end of the ledger"))
        checkpoints = _checkpoint_loop(writer, checkpointer, verified)
        tasks.append(asyncio.create_task(checkpoints, name="checkpoint the ledger"))
    try:
        if verified is not None:
            await asyncio.wait({verified}, timeout=VERIFY_TIMEOUT_S)  # a longer verification goes on while calls run
        yield writer
    finally:
        with contextlib.suppress(PaddockError, TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_TIMEOUT_S):
                await writer.flush()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if checkpointer is not None and (verified is None or _verification_completed(verified)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SHUTDOWN_TIMEOUT_S):
                    await checkpointer.checkpoint_due_chains(
                        1 if long_running else CHECKPOINT_ROWS, max_age_s=CHECKPOINT_INTERVAL_S
                    )


def _verification_completed(verified: asyncio.Task[None]) -> bool:
    return not verified.cancelled() and verified.exception() is None


async def _checkpoint_loop(
    writer: LedgerWriter, checkpointer: Checkpointer, verified: asyncio.Task[None] | None
) -> None:
    """Check all chains every minute, and earlier once one of them may have grown by a thousand rows.

    It waits for the verification and does nothing if that failed: a checkpoint would sign the chain as it stands.
    """
    if verified is not None:
        await asyncio.wait({verified})
        if not _verification_completed(verified):
            _log.error("no checkpoints are made: the end of the ledger was not verified", exc_info=verified.exception())
            return
    now = asyncio.get_running_loop().time
    due = now() + CHECKPOINT_INTERVAL_S  # fixed: a busy chain must not keep a quiet one waiting
    while True:
        rows_before = writer.rows
        rows_due = max(CHECKPOINT_ROWS - checkpointer.ahead, CHECKPOINT_ROWS // 10)
        try:
            async with asyncio.timeout_at(due if writer.unsigned is None else min(due, now() + RETRY_INTERVAL_S)):
                while writer.rows - rows_before < rows_due:
                    await writer.wait_for_write()
        except TimeoutError:
            pass
        if now() < due:
            await checkpointer.checkpoint_due_chains(min_rows=CHECKPOINT_ROWS)
        else:
            due = now() + CHECKPOINT_INTERVAL_S
            await checkpointer.checkpoint_due_chains()
        before, failing = writer.unsigned, checkpointer.failing
        writer.note_unsigned(failing)
        if failing is not None and (before is None or before.message != failing.message):
            _log.warning("%s", failing.message)
