"""Delivers events to webhooks and live followers while a daemon runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from paddock.config.settings import EventSettings
from paddock.core.clock import Clock, Random
from paddock.host.wiring.background_jobs import ledger_publisher
from paddock.ledger.write.writer import LedgerWriter
from paddock.queue.lifespan import open_worker
from paddock.queue.node import Node
from paddock.queue.worker import JobType, Worker
from paddock.secrets.vault import Vault
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.database import Database
from paddock.webhooks.delivery import MAX_TURN_S, WebhookDelivery
from paddock.webhooks.live_events import LiveEvents
from paddock.webhooks.outbox import WebhookOutbox
from paddock.webhooks.retry import DeliveryRetryPolicy
from paddock.webhooks.sender import ATTEMPT_TIMEOUT_S, WebhookSender
from paddock.webhooks.webhook import DELIVERY_JOB

_MAX_JOB_S = MAX_TURN_S + 4 * ATTEMPT_TIMEOUT_S  # an entry may be two events, each sent twice


@asynccontextmanager
async def open_webhook_delivery(
    live_events: LiveEvents,
    sender: WebhookSender,
    events: EventSettings,
    *,
    database: Database,
    ledger: LedgerWriter,
    node: Node,
    keys: WrappingKeys,
    clock: Clock,
    random: Random,
) -> AsyncGenerator[None, None]:
    """Deliver webhooks and feed live event followers while the block runs."""
    publisher = ledger_publisher(clock, random)
    retry_policy = DeliveryRetryPolicy(events.attempts, events.first_pause_s)
    delivery = WebhookDelivery(
        database, Vault(database, keys), sender, clock, random, retry_policy, events.source, publisher
    )
    # A worker of its own: receivers that do not answer delay nothing else.
    worker = Worker(
        database, node, clock, random, {DELIVERY_JOB: JobType(delivery.run, timeout_s=_MAX_JOB_S)}, publisher
    )
    outbox = WebhookOutbox(database, clock, events.source, ledger.wait_for_write, worker.wake)
    async with open_worker(worker, node):
        tasks = [
            asyncio.create_task(outbox.run(), name="look for what webhooks are to be told"),
            asyncio.create_task(live_events.run(), name="read events for whoever follows"),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
