"""The ledger for as long as a host runs: its writer, and the task that makes checkpoints."""

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

RETRY_INTERVAL_S = 5.0  # seconds until the next try where a checkpoint could not be made
VERIFY_TIMEOUT_S = 2.0  # until calls are taken all the same
_SHUTDOWN_TIMEOUT_S = 10

_log = logging.getLogger("paddock.ledger")


@asynccontextmanager
async def open_ledger(
    database: Database, clock: Clock, random: Random, *, state: Path | None = None, lasting: bool = True
) -> AsyncGenerator[LedgerWriter, None]:
    """The writer for as long as the block runs; what was accepted is written before it ends, where it can be.

    A host that stays verifies first what came since the last checkpoints.

    Args:
        database: Where the chains are.
        clock: Gives the times of entries.
        random: Gives their ids and salts.
        state: Where checkpoints and their key go; without it none are made.
        lasting: Whether the host stays. One that ends after a call leaves the checkpoint to a later one, unless the
            last is older than a minute: a signature costs as much as the call.
    """
    writer = LedgerWriter(database, clock, random)
    tasks = [asyncio.create_task(writer.write_forever(), name="write the ledger")]
    checkpointer, verified = None, None
    if state is not None:
        checkpointer = Checkpointer(database, clock, state, broken=writer.broken)
        if lasting:
            looking = verify_since_checkpoint(database, state, writer.broken)
            tasks.append(verified := asyncio.create_task(looking, name="verify the end of the ledger"))
        keeping = _checkpoint_loop(writer, checkpointer, verified)
        tasks.append(asyncio.create_task(keeping, name="checkpoint the ledger"))
    try:
        if verified is not None:
            await asyncio.wait({verified}, timeout=VERIFY_TIMEOUT_S)  # what takes longer goes on beside the calls
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
                        1 if lasting else CHECKPOINT_ROWS, rested=CHECKPOINT_INTERVAL_S
                    )


def _verification_completed(verified: asyncio.Task[None]) -> bool:
    return not verified.cancelled() and verified.exception() is None


async def _checkpoint_loop(
    writer: LedgerWriter, checkpointer: Checkpointer, verified: asyncio.Task[None] | None
) -> None:
    """Look each minute at all chains, and in between as soon as one of them may have grown by a thousand rows.

    Not before what is there was verified, and not where that failed: a checkpoint would sign it as it stands.
    """
    if verified is not None:
        await asyncio.wait({verified})
        if not _verification_completed(verified):
            _log.error("no checkpoints are made: the end of the ledger was not verified", exc_info=verified.exception())
            return
    now = asyncio.get_running_loop().time
    due = now() + CHECKPOINT_INTERVAL_S  # whatever happens until then: a busy chain must not keep a quiet one waiting
    while True:
        begun = writer.rows
        enough = max(CHECKPOINT_ROWS - checkpointer.ahead, CHECKPOINT_ROWS // 10)
        try:
            async with asyncio.timeout_at(due if writer.unsigned is None else min(due, now() + RETRY_INTERVAL_S)):
                while writer.rows - begun < enough:
                    await writer.wait_for_write()
        except TimeoutError:
            pass
        if now() < due:
            await checkpointer.checkpoint_due_chains(least=CHECKPOINT_ROWS)
        else:
            due = now() + CHECKPOINT_INTERVAL_S
            await checkpointer.checkpoint_due_chains()
        before, writer.unsigned = writer.unsigned, checkpointer.failing
        if writer.unsigned is not None and (before is None or before.message != writer.unsigned.message):
            _log.warning("%s", writer.unsigned.message)
