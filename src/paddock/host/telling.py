"""Telling others of events for as long as a daemon runs: webhooks, and whoever follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from paddock.config.settings import EventSettings
from paddock.core.clock import Clock, Random
from paddock.events.delivering import LONGEST_TURN, Delivery
from paddock.events.live import LiveEvents
from paddock.events.noticing import Noticing
from paddock.events.sending import SECONDS, Sender
from paddock.events.verdict import Terms
from paddock.events.webhook import DELIVER
from paddock.host.timed_work import publishing
from paddock.ledger.writer import LedgerWriter
from paddock.queue.node import Node
from paddock.queue.worker import Kind, Worker, open_worker
from paddock.secrets.keys import Keys
from paddock.secrets.vault import Vault
from paddock.store.database import Database

_LONGEST = LONGEST_TURN + 4 * SECONDS  # an entry may be two events, each sent twice


@asynccontextmanager
async def open_telling(
    live: LiveEvents,
    sender: Sender,
    events: EventSettings,
    *,
    database: Database,
    ledger: LedgerWriter,
    node: Node,
    keys: Keys,
    clock: Clock,
    random: Random,
) -> AsyncGenerator[None, None]:
    """Deliver to webhooks, and read for whoever follows, while the block runs."""
    told = publishing(clock, random)
    terms = Terms(events.attempts, events.first_pause_s)
    delivery = Delivery(database, Vault(database, keys), sender, clock, random, terms, events.source, told)
    # A worker of its own: receivers that do not answer hold up nothing else.
    worker = Worker(database, node, clock, random, {DELIVER: Kind(delivery.run, longest=_LONGEST)}, told)
    noticing = Noticing(database, clock, events.source, ledger.landed, worker.wake)
    async with open_worker(worker, node):
        tasks = [
            asyncio.create_task(noticing.look_forever(), name="look for what webhooks are to be told"),
            asyncio.create_task(live.read_forever(), name="read events for whoever follows"),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
