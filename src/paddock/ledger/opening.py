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
from paddock.ledger.checkpointing import EVERY_ROWS, EVERY_SECONDS, Checkpointer
from paddock.ledger.since_checkpoint import look_through
from paddock.ledger.writer import LedgerWriter
from paddock.store.database import Database

TRY_AGAIN = 5.0  # seconds until the next try where a checkpoint could not be made
SECONDS_TO_VERIFY = 2.0  # until calls are taken all the same
_SECONDS_AT_THE_END = 10

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
            looking = look_through(database, state, writer.broken)
            tasks.append(verified := asyncio.create_task(looking, name="verify the end of the ledger"))
        keeping = _keep_checkpoints(writer, checkpointer, verified)
        tasks.append(asyncio.create_task(keeping, name="checkpoint the ledger"))
    try:
        if verified is not None:
            await asyncio.wait({verified}, timeout=SECONDS_TO_VERIFY)  # what takes longer goes on beside the calls
        yield writer
    finally:
        with contextlib.suppress(PaddockError, TimeoutError):
            async with asyncio.timeout(_SECONDS_AT_THE_END):
                await writer.flushed()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if checkpointer is not None and (verified is None or _went_through(verified)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_AT_THE_END):
                    await checkpointer.look(1 if lasting else EVERY_ROWS, rested=EVERY_SECONDS)


def _went_through(verified: asyncio.Task[None]) -> bool:
    return not verified.cancelled() and verified.exception() is None


async def _keep_checkpoints(
    writer: LedgerWriter, checkpointer: Checkpointer, verified: asyncio.Task[None] | None
) -> None:
    """Look each minute at all chains, and in between as soon as one of them may have grown by a thousand rows.

    Not before what is there was verified, and not where that failed: a checkpoint would sign it as it stands.
    """
    if verified is not None:
        await asyncio.wait({verified})
        if not _went_through(verified):
            _log.error("no checkpoints are made: the end of the ledger was not verified", exc_info=verified.exception())
            return
    now = asyncio.get_running_loop().time
    due = now() + EVERY_SECONDS  # whatever happens until then: a busy chain must not keep a quiet one waiting
    while True:
        begun = writer.rows
        enough = max(EVERY_ROWS - checkpointer.ahead, EVERY_ROWS // 10)
        try:
            async with asyncio.timeout_at(due if writer.unsigned is None else min(due, now() + TRY_AGAIN)):
                while writer.rows - begun < enough:
                    await writer.landed()
        except TimeoutError:
            pass
        if now() < due:
            await checkpointer.look(least=EVERY_ROWS)
        else:
            due = now() + EVERY_SECONDS
            await checkpointer.look()
        before, writer.unsigned = writer.unsigned, checkpointer.failing
        if writer.unsigned is not None and (before is None or before.message != writer.unsigned.message):
            _log.warning("%s", writer.unsigned.message)
