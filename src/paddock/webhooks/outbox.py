"""The webhook outbox: scans the ledger for pending entries and enqueues delivery jobs.

This is the only link from ledger to queue. Without pending entries nothing is written: scanned positions are kept in
memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct, field

from paddock.core.clock import Clock
from paddock.core.errors import Busy, PaddockError
from paddock.ledger.read.entries import list_entries, read_head
from paddock.queue import queue
from paddock.store.database import Database, Transaction
from paddock.webhooks import webhook
from paddock.webhooks.dead_letters import next_retry
from paddock.webhooks.delivery import events_for_webhook
from paddock.webhooks.webhook import DELIVERY_JOB, Webhook

POLL_INTERVAL_S = 1.0  # without a notification of new entries
IDLE_POLL_INTERVAL_S = 5.0  # while there is no webhook
MIN_POLL_INTERVAL_S = 0.1  # entries come in batches many times a second
ENTRIES_PER_READ = 500
SAVE_POSITION_AFTER_ENTRIES = 10_000  # then the position is saved although none matched

_log = logging.getLogger("paddock.webhooks")


class _ScanResult(Struct):
    """The result of one scan."""

    webhooks: int = 0
    due: list[Webhook] = field(default_factory=list[Webhook])
    scanned: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    to_advance: list[tuple[Webhook, int]] = field(default_factory=list[tuple[Webhook, int]])
    more: bool = False


class WebhookOutbox:
    """Scans for pending entries.

    Args:
        database: Holds webhooks and the ledger.
        clock: For the due time of jobs.
        source: The CloudEvents source of this host.
        wait_for_entries: Waits until the ledger has new entries.
        wake: Called after jobs were enqueued.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        source: str,
        wait_for_entries: Callable[[], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._source = source
        self._wait_for_entries = wait_for_entries
        self._wake = wake
        self._scanned: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        last_error = ""
        while True:
            try:
                result, last_error = await self.scan(), ""
            except PaddockError as error:
                if error.message != last_error:  # log a lasting failure, such as a full disk, once
                    _log.warning("webhooks could not be looked at: %s", error.message)
                result, last_error = _ScanResult(), error.message
            await asyncio.sleep(MIN_POLL_INTERVAL_S)
            if not result.webhooks:
                await asyncio.sleep(IDLE_POLL_INTERVAL_S)
            elif not result.more:
                try:
                    async with asyncio.timeout(POLL_INTERVAL_S):
                        await self._wait_for_entries()
                except TimeoutError:
                    pass

    async def scan(self) -> _ScanResult:
        """Enqueue delivery jobs for all pending entries."""
        result = await self._database.read(self._scan)
        self._scanned = result.scanned
        if result.due or result.to_advance:
            await self._database.write(lambda tx: self._enqueue(tx, result))
            self._wake()
        return result

    def _scan(self, tx: Transaction) -> _ScanResult:
        result = _ScanResult()
        for hook in webhook.list_enabled(tx):
            result.webhooks += 1
            key = (hook.tenant, hook.id)
            if queue.find_due(tx, hook.tenant, DELIVERY_JOB, hook.id) is not None:
                continue  # a job is already queued or running
            position = max(hook.position, self._scanned.get(key, 0))
            result.scanned[key] = position
            head = read_head(tx, hook.tenant)
            entries = (
                list_entries(tx, hook.tenant, after=position, newest_first=False, limit=ENTRIES_PER_READ)
                if head is not None and head[0] > position
                else []
            )
            if (
                any(events_for_webhook(hook, entry, self._source) for entry in entries)
                or next_retry(tx, *key) is not None
            ):
                result.due.append(hook)
                continue
            if entries:
                result.scanned[key] = entries[-1].seq
                result.more = result.more or len(entries) == ENTRIES_PER_READ
                if entries[-1].seq - hook.position >= SAVE_POSITION_AFTER_ENTRIES:
                    result.to_advance.append((hook, entries[-1].seq))
        return result

    def _enqueue(self, tx: Transaction, result: _ScanResult) -> None:
        now = self._clock.now()
        for hook in result.due:
            with suppress(Busy):  # a tenant's full queue must not affect others; the next scan retries
                queue.enqueue(tx, hook.tenant, DELIVERY_JOB, hook.id, due=now, now=now)
        for hook, seq in result.to_advance:
            if queue.find_due(tx, hook.tenant, DELIVERY_JOB, hook.id) is None:
                webhook.advance_position(tx, hook, seq)
