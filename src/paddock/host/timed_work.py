"""What a daemon does by itself when its time has come."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime

from paddock.core.clock import Clock, Random
from paddock.core.errors import NotFound
from paddock.core.ids import Tenant
from paddock.gate.resume import Resumption
from paddock.ledger.append import LedgerTable
from paddock.policy.approvals.approval import OPEN
from paddock.policy.approvals.desk import Approvals
from paddock.policy.approvals.expiring import EXPIRE
from paddock.queue.node import Node
from paddock.queue.queue import Work
from paddock.queue.schedule import Again
from paddock.queue.worker import Kind, Worker, open_worker
from paddock.store.database import Database, Transaction


def expiry(approvals: Approvals, resumption: Resumption) -> Kind:
    """Ends requests that nobody answered in time, and the calls that waited for them."""

    async def expire(work: Work) -> Again | None:
        try:
            over = await approvals.expire_one(work.tenant, work.key)
            if over is not None:
                await resumption.answered(over)
                return None
            still = await approvals.find(work.tenant, work.key)
        except NotFound:
            return None
        # The clock was set back: its time is not over.
        return Again(datetime.fromisoformat(still.binding.expires_at)) if still.state in OPEN else None

    return Kind(expire)


@asynccontextmanager
async def open_timed_work(
    database: Database, node: Node, clock: Clock, random: Random, *, approvals: Approvals, resumption: Resumption
) -> AsyncGenerator[Worker, None]:
    """Do what falls due for as long as the block runs."""

    def publish_in(tx: Transaction, tenant: Tenant, call: str | None) -> LedgerTable:
        return LedgerTable(tx, clock, random, tenant, call)

    kinds = {EXPIRE: expiry(approvals, resumption)}
    async with open_worker(Worker(database, node, clock, random, kinds, publish_in), node) as worker:
        yield worker
