"""Telling one webhook what is in line for it: the work of the kind `webhook.deliver`.

Entries are sent one after the other in the order of the ledger, and each until it is taken or given up; what is behind
one that fails waits with it. Where it stands is noted after each, in the hands of whoever took the work from the queue,
so that of several hosts one delivers, and who is killed leaves the rest to the next. Whatever was on its way then is
sent again, under the same id.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.events.webhooks import WebhookGaveUp
from paddock.core.secret import Secret
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import list_entries
from paddock.queue import queue
from paddock.queue.queue import Job
from paddock.queue.schedule import RescheduleAt
from paddock.queue.worker import EventSinkFactory
from paddock.secrets.vault import Vault
from paddock.store.database import Database, Transaction
from paddock.webhooks import dead_letters, webhook
from paddock.webhooks.cloud_event import CloudEvent, to_cloud_events
from paddock.webhooks.retry import DeadLettered, DeliveryAttempt, DeliveryRetryPolicy, ReceiverGone, decide_retry
from paddock.webhooks.sender import ReceiverConnection
from paddock.webhooks.signature import open_signing_secrets
from paddock.webhooks.webhook import Webhook

ENTRIES_PER_READ = 200  # entries that are read at once
MAX_TURN_S = 30.0  # seconds after which others that wait come first
SECRET_RETRY_DELAY = timedelta(minutes=1)  # until the next look at a signing secret that cannot be opened
NEVER_DELIVERED = frozenset({WebhookGaveUp.type})
"""What no webhook is told: that a letter is dead would be the next letter to die."""


class ReceiverConnector(Protocol):
    """Makes connections to receivers; `sending.Sender` is one."""

    def connect(self, url: str) -> AbstractAsyncContextManager[ReceiverConnection]: ...


def events_for_webhook(hook: Webhook, entry: LedgerEntry, source: str) -> list[CloudEvent]:
    """What a webhook is told of an entry."""
    return [] if entry.type in NEVER_DELIVERED else to_cloud_events(entry, hook.types, source, personal=hook.personal)


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """Delivers.

    Attributes:
        database: Where webhooks, their places and the ledger are.
        vault: Opens their signing secrets.
        lines: Reaches their receivers.
        terms: How long one that takes nothing is waited for.
        source: How this host is called outside.
        publish_in: Where a unit of work tells what was given up.
    """

    database: Database
    vault: Vault
    connector: ReceiverConnector
    clock: Clock
    random: Random
    retry_policy: DeliveryRetryPolicy
    source: str
    publish_in: EventSinkFactory

    async def run(self, work: Job) -> RescheduleAt | None:
        """Send what is in line; when to go on, or nothing where all is sent."""
        hook = await self.database.read(lambda tx: webhook.find(tx, work.tenant, work.key))
        if hook is None or not hook.enabled:
            return None
        now = self.clock.now()
        try:
            secrets = await open_signing_secrets(self.vault, hook, now)
        except PaddockError as error:
            code = error.error_code
            await self.write_if_leased(
                work, lambda tx: webhook.record_failure(tx, hook, now.isoformat(), hook.attempts, code)
            )
            return RescheduleAt(now + SECRET_RETRY_DELAY)
        async with self.connector.connect(hook.url) as line:
            turn = _DeliveryTurn(self, work, hook, line, secrets, self.clock.monotonic() + MAX_TURN_S)
            return await turn.deliver_pending() or await turn.retry_dead_letters()

    async def write_if_leased(self, work: Job, unit: Callable[[Transaction], object]) -> None:
        """Write something down, where the work is still in these hands."""

        def held(tx: Transaction) -> None:
            queue.require_held(tx, work)
            unit(tx)

        await self.database.write(held)


class _DeliveryTurn:
    """One turn of one webhook."""

    def __init__(
        self,
        delivery: WebhookDelivery,
        work: Job,
        hook: Webhook,
        line: ReceiverConnection,
        secrets: list[Secret],
        until: float,
    ) -> None:
        self._delivery = delivery
        self._work = work
        self._hook = hook
        self._connection = line
        self._secrets = secrets
        self._until = until
        self._position = self._saved_position = hook.position
        self._attempts = hook.attempts

    async def deliver_pending(self) -> RescheduleAt | None:
        """Send entries in their order, until one fails or this turn is over."""
        while entries := await self._next_entries():
            for entry in entries:
                events = events_for_webhook(self._hook, entry, self._delivery.source)
                if not events:
                    self._position = entry.seq
                    continue
                if self._time_is_up():
                    await self._save_position()
                    return RescheduleAt(self._delivery.clock.now())
                attempt = await self._send_events(events)
                if attempt.succeeded:
                    await self._record_success(entry, len(events))
                elif (later := await self._record_failure(entry, attempt)) is not None:
                    return later
            await self._save_position()
        return None

    async def retry_dead_letters(self) -> RescheduleAt | None:
        """Try each dead letter once that somebody asked another try of."""
        hook, database = self._hook, self._delivery.database
        while letter := await database.read(lambda tx: dead_letters.next_retry(tx, hook.tenant, hook.id)):
            if self._time_is_up():
                return RescheduleAt(self._delivery.clock.now())
            seq = letter.seq
            entries = await database.read(
                lambda tx, seq=seq: list_entries(tx, hook.tenant, after=seq - 1, before=seq + 1, limit=1)
            )
            events = [event for entry in entries for event in events_for_webhook(hook, entry, self._delivery.source)]
            attempt, count = await self._send_events(events), len(events)
            if attempt.succeeded:
                await self._write(lambda tx, seq=seq, count=count: self._revive(tx, seq, count))
            else:
                await self._write(
                    lambda tx, seq=seq, why=attempt.reason: dead_letters.record_failed_retry(tx, hook, seq, why)
                )
        return None

    async def _next_entries(self) -> list[LedgerEntry]:
        tenant, position = self._hook.tenant, self._position
        return await self._delivery.database.read(
            lambda tx: list_entries(tx, tenant, after=position, newest_first=False, limit=ENTRIES_PER_READ)
        )

    async def _send_events(self, events: list[CloudEvent]) -> DeliveryAttempt:
        attempt = DeliveryAttempt()
        for event in events:
            attempt = await self._connection.send(event, self._secrets)
            if not attempt.succeeded:
                break
        return attempt

    async def _record_success(self, entry: LedgerEntry, count: int) -> None:
        hook, now = self._hook, self._now()
        await self._write(lambda tx: webhook.record_delivery(tx, hook, now, position=entry.seq, count=count))
        self._position, self._saved_position, self._attempts = entry.seq, entry.seq, 0

    async def _record_failure(self, entry: LedgerEntry, attempt: DeliveryAttempt) -> RescheduleAt | None:
        """When to try it again; nothing where it was given up, and the next one is in line."""
        here, hook, tried, now = self._delivery, self._hook, self._attempts + 1, self._now()
        verdict = decide_retry(attempt, tried, here.clock.now(), here.random, here.retry_policy)

        def unit(tx: Transaction) -> None:
            webhook.advance_position(tx, hook, entry.seq if isinstance(verdict, DeadLettered) else self._position)
            webhook.record_failure(tx, hook, now, 0 if isinstance(verdict, DeadLettered) else tried, attempt.reason)
            publish = here.publish_in(tx, hook.tenant, None)
            if isinstance(verdict, ReceiverGone):
                webhook.disable(tx, hook, "gone", publish)
            if isinstance(verdict, DeadLettered):
                buried = dead_letters.add(tx, hook, entry, tried, attempt.reason, now)
                publish.publish(
                    WebhookGaveUp(webhook=hook.id, event_id=entry.id, times=tried, error_code=attempt.reason)
                )
                if buried >= dead_letters.MAX_DEAD_LETTERS:
                    webhook.disable(tx, hook, "dead_full", publish)

        await self._write(unit)
        if isinstance(verdict, RescheduleAt):
            return verdict
        if isinstance(verdict, ReceiverGone):
            return RescheduleAt(here.clock.now())  # its work is gone from the queue, whatever this says
        self._position, self._saved_position, self._attempts = entry.seq, entry.seq, 0
        return None

    async def _save_position(self) -> None:
        """Note how far there was nothing for it."""
        if self._position != self._saved_position:
            await self._write(lambda tx: webhook.advance_position(tx, self._hook, self._position))
            self._saved_position = self._position

    def _revive(self, tx: Transaction, seq: int, count: int) -> None:
        dead_letters.remove(tx, self._hook, seq)
        webhook.record_delivery(tx, self._hook, self._now(), position=None, count=count)

    def _time_is_up(self) -> bool:
        return self._delivery.clock.monotonic() >= self._until

    def _now(self) -> str:
        return self._delivery.clock.now().isoformat()

    async def _write(self, unit: Callable[[Transaction], object]) -> None:
        await self._delivery.write_if_leased(self._work, unit)
