"""Delivery of ledger entries to a webhook: the queue job `webhook.deliver`.

Entries are sent in ledger order, each until it is accepted or becomes a dead letter; a failing entry holds up those
behind it. The position is saved after each entry under the lease of the job, so that one of several hosts delivers,
and another takes over if it is killed. An event that was in flight then is sent again, with the same id.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from msgspec import Struct

from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.events.webhooks import WebhookGaveUp
from paddock.core.secret import Secret
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import list_entries
from paddock.queue import queue
from paddock.queue.job import Job
from paddock.queue.schedule import RescheduleAt
from paddock.queue.worker import EventSinkFactory
from paddock.secrets.vault import Vault
from paddock.store.database import Database, Transaction
from paddock.webhooks import dead_letters, webhook
from paddock.webhooks.cloud_event import CloudEvent, to_cloud_events
from paddock.webhooks.retry import DeadLettered, DeliveryAttempt, DeliveryRetryPolicy, ReceiverGone, decide_retry
from paddock.webhooks.sender import ReceiverConnection, WebhookSender
from paddock.webhooks.signature import open_signing_secrets
from paddock.webhooks.webhook import Webhook

ENTRIES_PER_READ = 200
MAX_TURN_S = 30.0  # then other waiting jobs come first
SECRET_RETRY_DELAY = timedelta(minutes=1)  # after a signing secret could not be opened
NEVER_DELIVERED = frozenset({WebhookGaveUp.type})
"""Never sent to webhooks: the event about a dead letter would become the next dead letter."""


def events_for_webhook(hook: Webhook, entry: LedgerEntry, source: str) -> list[CloudEvent]:
    """Return the events that a webhook gets for an entry."""
    return [] if entry.type in NEVER_DELIVERED else to_cloud_events(entry, hook.types, source, personal=hook.personal)


class WebhookDelivery(Struct, frozen=True):
    """Runs delivery jobs.

    Attributes:
        database: Holds webhooks, their positions and the ledger.
        vault: Opens signing secrets.
        sender: Opens connections to receivers.
        retry_policy: How long a failing receiver is retried.
        source: The CloudEvents source of this host.
        publish_in: Creates the event sink of a transaction.
    """

    database: Database
    vault: Vault
    sender: WebhookSender
    clock: Clock
    random: Random
    retry_policy: DeliveryRetryPolicy
    source: str
    publish_in: EventSinkFactory

    async def run(self, job: Job) -> RescheduleAt | None:
        """Deliver pending entries; returns when to continue, or None if all are sent."""
        hook = await self.database.read(lambda tx: webhook.find(tx, job.tenant, job.key))
        if hook is None or not hook.enabled:
            return None
        now = self.clock.now()
        try:
            secrets = await open_signing_secrets(self.vault, hook, now)
        except PaddockError as error:
            code = error.error_code
            await self.write_if_leased(
                job, lambda tx: webhook.record_failure(tx, hook, now.isoformat(), hook.attempts, code)
            )
            return RescheduleAt(now + SECRET_RETRY_DELAY)
        async with self.sender.connect(hook.url) as connection:
            turn = _DeliveryTurn(self, job, hook, connection, secrets, self.clock.monotonic() + MAX_TURN_S)
            return await turn.deliver_pending() or await turn.retry_dead_letters()

    async def write_if_leased(self, job: Job, unit: Callable[[Transaction], object]) -> None:
        """Write in a transaction that fails if the job's lease is lost."""

        def leased_unit(tx: Transaction) -> None:
            queue.require_held(tx, job)
            unit(tx)

        await self.database.write(leased_unit)


class _DeliveryTurn:
    """One time-limited run of a delivery job for one webhook."""

    def __init__(
        self,
        delivery: WebhookDelivery,
        job: Job,
        hook: Webhook,
        connection: ReceiverConnection,
        secrets: list[Secret],
        deadline: float,
    ) -> None:
        self._delivery = delivery
        self._job = job
        self._hook = hook
        self._connection = connection
        self._secrets = secrets
        self._deadline = deadline
        self._position = self._saved_position = hook.position
        self._attempts = hook.attempts

    async def deliver_pending(self) -> RescheduleAt | None:
        """Send entries in order, until one fails or the time is up."""
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
                elif (reschedule := await self._record_failure(entry, attempt)) is not None:
                    return reschedule
            await self._save_position()
        return None

    async def retry_dead_letters(self) -> RescheduleAt | None:
        """Try each dead letter once for which a retry was requested."""
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
                    lambda tx, seq=seq, reason=attempt.reason: dead_letters.record_failed_retry(tx, hook, seq, reason)
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
        """Record a failed attempt; returns when to retry, or None if the entry became a dead letter."""
        delivery, hook, attempts, now = self._delivery, self._hook, self._attempts + 1, self._now()
        decision = decide_retry(attempt, attempts, delivery.clock.now(), delivery.random, delivery.retry_policy)

        def unit(tx: Transaction) -> None:
            webhook.advance_position(tx, hook, entry.seq if isinstance(decision, DeadLettered) else self._position)
            webhook.record_failure(tx, hook, now, 0 if isinstance(decision, DeadLettered) else attempts, attempt.reason)
            sink = delivery.publish_in(tx, hook.tenant, None)
            if isinstance(decision, ReceiverGone):
                webhook.disable(tx, hook, "gone", sink)
            if isinstance(decision, DeadLettered):
                dead_count = dead_letters.add(tx, hook, entry, attempts, attempt.reason, now)
                sink.publish(
                    WebhookGaveUp(webhook=hook.id, event_id=entry.id, times=attempts, error_code=attempt.reason)
                )
                if dead_count >= dead_letters.MAX_DEAD_LETTERS:
                    webhook.disable(tx, hook, "dead_full", sink)

        await self._write(unit)
        if isinstance(decision, RescheduleAt):
            return decision
        if isinstance(decision, ReceiverGone):
            return RescheduleAt(delivery.clock.now())  # without effect: disabling has removed the job
        self._position, self._saved_position, self._attempts = entry.seq, entry.seq, 0
        return None

    async def _save_position(self) -> None:
        """Save the position after entries that had no events for this webhook."""
        if self._position != self._saved_position:
            await self._write(lambda tx: webhook.advance_position(tx, self._hook, self._position))
            self._saved_position = self._position

    def _revive(self, tx: Transaction, seq: int, count: int) -> None:
        dead_letters.remove(tx, self._hook, seq)
        webhook.record_delivery(tx, self._hook, self._now(), position=None, count=count)

    def _time_is_up(self) -> bool:
        return self._delivery.clock.monotonic() >= self._deadline

    def _now(self) -> str:
        return self._delivery.clock.now().isoformat()

    async def _write(self, unit: Callable[[Transaction], object]) -> None:
        await self._delivery.write_if_leased(self._job, unit)
