"""Seeing that something is in line for a webhook, and putting that into the queue: the only link from ledger to queue.

Nothing is written while nothing is in line: what does not fit a webhook is remembered here as looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from paddock.core.clock import Clock
from paddock.core.errors import Busy, PaddockError
from paddock.ledger.read.entries import list_entries, read_head
from paddock.queue import queue
from paddock.store.database import Database, Transaction
from paddock.webhooks import webhook
from paddock.webhooks.dead_letters import next_retry
from paddock.webhooks.delivery import events_for_webhook
from paddock.webhooks.webhook import DELIVERY_JOB, Webhook

POLL_INTERVAL_S = 1.0  # seconds between two looks, where nobody says that there is something new
IDLE_POLL_INTERVAL_S = 5.0  # and while there is no webhook
MIN_POLL_INTERVAL_S = 0.1  # seconds at least: entries come in batches many times a second
ENTRIES_PER_READ = 500
SAVE_POSITION_AFTER_ENTRIES = 10_000  # entries after which it is noted that none of them fits

_log = logging.getLogger("paddock.webhooks")


@dataclass(slots=True)
class _ScanResult:
    """What one look found."""

    webhooks: int = 0
    due: list[Webhook] = field(default_factory=list[Webhook])
    seen: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    to_advance: list[tuple[Webhook, int]] = field(default_factory=list[tuple[Webhook, int]])
    more: bool = False


class WebhookOutbox:
    """Looks for what is in line.

    Args:
        database: Where webhooks and the ledger are.
        clock: Says since when it is due.
        source: How this host is called outside.
        landed: Waits until something more is in the ledger.
        wake: Told when something was put into the queue.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        source: str,
        landed: Callable[[], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._source = source
        self._landed = landed
        self._wake = wake
        self._seen: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        told = ""
        while True:
            try:
                found, told = await self.scan(), ""
            except PaddockError as error:
                if error.message != told:  # a full disk stays full for long
                    _log.warning("webhooks could not be looked at: %s", error.message)
                found, told = _ScanResult(), error.message
            await asyncio.sleep(MIN_POLL_INTERVAL_S)
            if not found.webhooks:
                await asyncio.sleep(IDLE_POLL_INTERVAL_S)
            elif not found.more:
                try:
                    async with asyncio.timeout(POLL_INTERVAL_S):
                        await self._landed()
                except TimeoutError:
                    pass

    async def scan(self) -> _ScanResult:
        """Put what is in line into the queue."""
        found = await self._database.read(self._scan)
        self._seen = found.seen
        if found.due or found.to_advance:
            await self._database.write(lambda tx: self._enqueue(tx, found))
            self._wake()
        return found

    def _scan(self, tx: Transaction) -> _ScanResult:
        found = _ScanResult()
        for hook in webhook.list_enabled(tx):
            found.webhooks += 1
            key = (hook.tenant, hook.id)
            if queue.find_due(tx, hook.tenant, DELIVERY_JOB, hook.id) is not None:
                continue  # somebody sees to it
            begin = max(hook.position, self._seen.get(key, 0))
            found.seen[key] = begin
            head = read_head(tx, hook.tenant)
            entries = (
                list_entries(tx, hook.tenant, after=begin, newest_first=False, limit=ENTRIES_PER_READ)
                if head is not None and head[0] > begin
                else []
            )
            if (
                any(events_for_webhook(hook, entry, self._source) for entry in entries)
                or next_retry(tx, *key) is not None
            ):
                found.due.append(hook)
                continue
            if entries:
                found.seen[key] = entries[-1].seq
                found.more = found.more or len(entries) == ENTRIES_PER_READ
                if entries[-1].seq - hook.position >= SAVE_POSITION_AFTER_ENTRIES:
                    found.to_advance.append((hook, entries[-1].seq))
        return found

    def _enqueue(self, tx: Transaction, found: _ScanResult) -> None:
        now = self._clock.now()
        for hook in found.due:
            with suppress(Busy):  # one tenant's full queue is not the others' trouble; the next look tries again
                queue.enqueue(tx, hook.tenant, DELIVERY_JOB, hook.id, due=now, now=now)
        for hook, seq in found.to_advance:
            if queue.find_due(tx, hook.tenant, DELIVERY_JOB, hook.id) is None:
                webhook.advance_position(tx, hook, seq)
