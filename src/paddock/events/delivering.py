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
from paddock.core.events_webhooks import WebhookGaveUp
from paddock.core.secret import Secret
from paddock.events import dead_letters, webhook
from paddock.events.cloud_event import CloudEvent, told
from paddock.events.sending import Line
from paddock.events.signing_secrets import opened
from paddock.events.verdict import Attempt, Dead, Gone, Terms, after
from paddock.events.webhook import Webhook
from paddock.ledger.entry import Entry
from paddock.ledger.feed import page
from paddock.queue import queue
from paddock.queue.queue import Work
from paddock.queue.schedule import Again
from paddock.queue.worker import PublishIn
from paddock.secrets.vault import Vault
from paddock.store.database import Database, Transaction

AT_A_TIME = 200  # entries that are read at once
LONGEST_TURN = 30.0  # seconds after which others that wait come first
SEALED_AGAIN = timedelta(minutes=1)  # until the next look at a signing secret that cannot be opened
NEVER_TOLD = frozenset({WebhookGaveUp.type})
"""What no webhook is told: that a letter is dead would be the next letter to die."""


class Lines(Protocol):
    """Makes connections to receivers; `sending.Sender` is one."""

    def line_to(self, url: str) -> AbstractAsyncContextManager[Line]: ...


def for_webhook(hook: Webhook, entry: Entry, source: str) -> list[CloudEvent]:
    """What a webhook is told of an entry."""
    return [] if entry.type in NEVER_TOLD else told(entry, hook.types, source, personal=hook.personal)


@dataclass(frozen=True, slots=True)
class Delivery:
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
    lines: Lines
    clock: Clock
    random: Random
    terms: Terms
    source: str
    publish_in: PublishIn

    async def run(self, work: Work) -> Again | None:
        """Send what is in line; when to go on, or nothing where all is sent."""
        hook = await self.database.read(lambda tx: webhook.find(tx, work.tenant, work.key))
        if hook is None or not hook.enabled:
            return None
        now = self.clock.now()
        try:
            secrets = await opened(self.vault, hook, now)
        except PaddockError as error:
            code = error.error_code
            await self.note(work, lambda tx: webhook.failed(tx, hook, now.isoformat(), hook.attempts, code))
            return Again(now + SEALED_AGAIN)
        async with self.lines.line_to(hook.url) as line:
            turn = _Turn(self, work, hook, line, secrets, self.clock.monotonic() + LONGEST_TURN)
            return await turn.in_line() or await turn.once_more()

    async def note(self, work: Work, unit: Callable[[Transaction], object]) -> None:
        """Write something down, where the work is still in these hands."""

        def held(tx: Transaction) -> None:
            queue.require_held(tx, work)
            unit(tx)

        await self.database.write(held)


class _Turn:
    """One turn of one webhook."""

    def __init__(
        self, delivery: Delivery, work: Work, hook: Webhook, line: Line, secrets: list[Secret], until: float
    ) -> None:
        self._delivery = delivery
        self._work = work
        self._hook = hook
        self._line = line
        self._secrets = secrets
        self._until = until
        self._position = self._noted = hook.position
        self._attempts = hook.attempts

    async def in_line(self) -> Again | None:
        """Send entries in their order, until one fails or this turn is over."""
        while entries := await self._following():
            for entry in entries:
                events = for_webhook(self._hook, entry, self._delivery.source)
                if not events:
                    self._position = entry.seq
                    continue
                if self._over():
                    await self._pass_by()
                    return Again(self._delivery.clock.now())
                attempt = await self._sent(events)
                if attempt.taken:
                    await self._taken(entry, len(events))
                elif (later := await self._failed(entry, attempt)) is not None:
                    return later
            await self._pass_by()
        return None

    async def once_more(self) -> Again | None:
        """Try each dead letter once that somebody asked another try of."""
        hook, database = self._hook, self._delivery.database
        while letter := await database.read(lambda tx: dead_letters.next_again(tx, hook.tenant, hook.id)):
            if self._over():
                return Again(self._delivery.clock.now())
            seq = letter.seq
            entries = await database.read(
                lambda tx, seq=seq: page(tx, hook.tenant, after=seq - 1, before=seq + 1, limit=1)
            )
            events = [event for entry in entries for event in for_webhook(hook, entry, self._delivery.source)]
            attempt, count = await self._sent(events), len(events)
            if attempt.taken:
                await self._note(lambda tx, seq=seq, count=count: self._risen(tx, seq, count))
            else:
                await self._note(lambda tx, seq=seq, why=attempt.reason: dead_letters.still_dead(tx, hook, seq, why))
        return None

    async def _following(self) -> list[Entry]:
        tenant, position = self._hook.tenant, self._position
        return await self._delivery.database.read(
            lambda tx: page(tx, tenant, after=position, newest_first=False, limit=AT_A_TIME)
        )

    async def _sent(self, events: list[CloudEvent]) -> Attempt:
        attempt = Attempt()
        for event in events:
            attempt = await self._line.send(event, self._secrets)
            if not attempt.taken:
                break
        return attempt

    async def _taken(self, entry: Entry, count: int) -> None:
        hook, now = self._hook, self._now()
        await self._note(lambda tx: webhook.delivered(tx, hook, now, position=entry.seq, count=count))
        self._position, self._noted, self._attempts = entry.seq, entry.seq, 0

    async def _failed(self, entry: Entry, attempt: Attempt) -> Again | None:
        """When to try it again; nothing where it was given up, and the next one is in line."""
        here, hook, tried, now = self._delivery, self._hook, self._attempts + 1, self._now()
        verdict = after(attempt, tried, here.clock.now(), here.random, here.terms)

        def unit(tx: Transaction) -> None:
            webhook.passed(tx, hook, entry.seq if isinstance(verdict, Dead) else self._position)
            webhook.failed(tx, hook, now, 0 if isinstance(verdict, Dead) else tried, attempt.reason)
            publish = here.publish_in(tx, hook.tenant, None)
            if isinstance(verdict, Gone):
                webhook.switch_off(tx, hook, "gone", publish)
            if isinstance(verdict, Dead):
                buried = dead_letters.bury(tx, hook, entry, tried, attempt.reason, now)
                publish.publish(
                    WebhookGaveUp(webhook=hook.id, event_id=entry.id, times=tried, error_code=attempt.reason)
                )
                if buried >= dead_letters.MOST:
                    webhook.switch_off(tx, hook, "dead_full", publish)

        await self._note(unit)
        if isinstance(verdict, Again):
            return verdict
        if isinstance(verdict, Gone):
            return Again(here.clock.now())  # its work is gone from the queue, whatever this says
        self._position, self._noted, self._attempts = entry.seq, entry.seq, 0
        return None

    async def _pass_by(self) -> None:
        """Note how far there was nothing for it."""
        if self._position != self._noted:
            await self._note(lambda tx: webhook.passed(tx, self._hook, self._position))
            self._noted = self._position

    def _risen(self, tx: Transaction, seq: int, count: int) -> None:
        dead_letters.forget(tx, self._hook, seq)
        webhook.delivered(tx, self._hook, self._now(), position=None, count=count)

    def _over(self) -> bool:
        return self._delivery.clock.monotonic() >= self._until

    def _now(self) -> str:
        return self._delivery.clock.now().isoformat()

    async def _note(self, unit: Callable[[Transaction], object]) -> None:
        await self._delivery.note(self._work, unit)
