"""Sends the newest checkpoints to every address from time to time, while a daemon runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from paddock.core.clock import Clock
from paddock.core.errors import HostError, PaddockError
from paddock.ledger.anchor.receipt import (
    AnchorReceipt,
    anchor_document,
    append_receipt,
    clear_failure,
    read_receipts,
    write_failure,
)
from paddock.ledger.anchor.send import AnchorSender
from paddock.ledger.chain.checkpoint import checkpoint_file, last_checkpoint_in, tenants_with_checkpoints
from paddock.net.anchor_address import AnchorAddress

FIRST_RETRY_S = 30.0
_POLL_S = 5.0  # how often is looked for checkpoints that are due

_log = logging.getLogger("paddock.ledger")


class AnchorSchedule(Struct, frozen=True):
    """Keeps one address up to date.

    Attributes:
        interval: The time between two sendings, if there are new checkpoints.
    """

    address: AnchorAddress
    sender: AnchorSender
    clock: Clock
    interval: timedelta

    async def run(self) -> None:
        """Send what is due, for ever. A failure is retried with growing pauses, never longer than the interval."""
        pause_s = _POLL_S
        while True:
            try:
                await self.send_if_due()
                pause_s = min(_POLL_S, self.interval.total_seconds())
            except PaddockError as error:
                pause_s = min(max(FIRST_RETRY_S, 2 * pause_s), max(self.interval.total_seconds(), 1.0))
                await asyncio.to_thread(self._note_failure, error)
            except Exception:  # one address must not end the others, nor this loop
                _log.exception("checkpoints could not be sent to %s", self.address.name)
                pause_s = self.interval.total_seconds()
            await asyncio.sleep(pause_s)

    async def send_if_due(self) -> bool:
        """Send the last checkpoint of each chain that has grown, if the interval is over. Returns whether it did.

        Raises:
            PaddockError: they cannot be read or sent, or the receipt cannot be kept.
        """
        state = self.sender.state
        receipts = await asyncio.to_thread(read_receipts, state, self.address)
        now = self.clock.now()
        last_at = datetime.fromisoformat(receipts[-1].at) if receipts else None
        # A receipt of the future is of a clock that was wrong.
        if last_at is not None and last_at <= now < last_at + self.interval:
            return False
        sent = {line for receipt in receipts for line in receipt.lines}
        lines = [line for line in await asyncio.to_thread(latest_checkpoints, state) if line not in sent]
        if not lines:
            return False
        proof = await self.sender.send(self.address, anchor_document(lines))
        receipt = AnchorReceipt(now.isoformat(), tuple(lines), proof)
        try:
            await asyncio.to_thread(append_receipt, state, self.address, receipt)
            await asyncio.to_thread(clear_failure, state, self.address)
        except OSError as error:  # without a receipt the same is sent again: not at once, and not silently
            message = f"the receipt of {self.address.name} cannot be kept: {error.strerror}"
            raise HostError(message, code="ledger.anchor") from error
        return True

    def _note_failure(self, error: PaddockError) -> None:
        _log.warning("%s", error.message)
        with suppress(OSError):
            write_failure(self.sender.state, self.address, error.message)


def latest_checkpoints(state: Path) -> list[str]:
    """Return the last checkpoint of each chain, as it is in its file.

    Raises:
        HostError: `ledger.checkpoints`, when a file cannot be read.
    """
    found = (last_checkpoint_in(checkpoint_file(state, tenant)) for tenant in sorted(tenants_with_checkpoints(state)))
    return [checkpoint.line().decode() for checkpoint in found if checkpoint is not None]


@asynccontextmanager
async def open_anchors(
    addresses: Sequence[AnchorAddress], sender: AnchorSender, clock: Clock, interval: timedelta
) -> AsyncGenerator[None, None]:
    """Keep all addresses up to date while the block runs."""
    tasks = [
        asyncio.create_task(AnchorSchedule(address, sender, clock, interval).run(), name=f"anchor at {address.name}")
        for address in addresses
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
