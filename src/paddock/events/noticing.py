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
from paddock.events import webhook
from paddock.events.dead_letters import next_again
from paddock.events.delivering import for_webhook
from paddock.events.webhook import DELIVER, Webhook
from paddock.ledger.feed import head_of, page
from paddock.queue import queue
from paddock.store.database import Database, Transaction

EVERY = 1.0  # seconds between two looks, where nobody says that there is something new
WITHOUT = 5.0  # and while there is no webhook
APART = 0.1  # seconds at least: entries come in batches many times a second
AT_A_TIME = 500
FAR = 10_000  # entries after which it is noted that none of them fits

_log = logging.getLogger("paddock.events")


@dataclass(slots=True)
class _Look:
    """What one look found."""

    webhooks: int = 0
    in_line: list[Webhook] = field(default_factory=list[Webhook])
    seen: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    far: list[tuple[Webhook, int]] = field(default_factory=list[tuple[Webhook, int]])
    more: bool = False


class Noticing:
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

    async def look_forever(self) -> None:
        told = ""
        while True:
            try:
                found, told = await self.look(), ""
            except PaddockError as error:
                if error.message != told:  # a full disk stays full for long
                    _log.warning("webhooks could not be looked at: %s", error.message)
                found, told = _Look(), error.message
            await asyncio.sleep(APART)
            if not found.webhooks:
                await asyncio.sleep(WITHOUT)
            elif not found.more:
                try:
                    async with asyncio.timeout(EVERY):
                        await self._landed()
                except TimeoutError:
                    pass

    async def look(self) -> _Look:
        """Put what is in line into the queue."""
        found = await self._database.read(self._look)
        self._seen = found.seen
        if found.in_line or found.far:
            await self._database.write(lambda tx: self._put(tx, found))
            self._wake()
        return found

    def _look(self, tx: Transaction) -> _Look:
        found = _Look()
        for hook in webhook.enabled(tx):
            found.webhooks += 1
            key = (hook.tenant, hook.id)
            if queue.due_of(tx, hook.tenant, DELIVER, hook.id) is not None:
                continue  # somebody sees to it
            begin = max(hook.position, self._seen.get(key, 0))
            found.seen[key] = begin
            head = head_of(tx, hook.tenant)
            entries = (
                page(tx, hook.tenant, after=begin, newest_first=False, limit=AT_A_TIME)
                if head is not None and head[0] > begin
                else []
            )
            if any(for_webhook(hook, entry, self._source) for entry in entries) or next_again(tx, *key) is not None:
                found.in_line.append(hook)
                continue
            if entries:
                found.seen[key] = entries[-1].seq
                found.more = found.more or len(entries) == AT_A_TIME
                if entries[-1].seq - hook.position >= FAR:
                    found.far.append((hook, entries[-1].seq))
        return found

    def _put(self, tx: Transaction, found: _Look) -> None:
        now = self._clock.now()
        for hook in found.in_line:
            with suppress(Busy):  # one tenant's full queue is not the others' trouble; the next look tries again
                queue.put(tx, hook.tenant, DELIVER, hook.id, due=now, now=now)
        for hook, seq in found.far:
            if queue.due_of(tx, hook.tenant, DELIVER, hook.id) is None:
                webhook.passed(tx, hook, seq)
