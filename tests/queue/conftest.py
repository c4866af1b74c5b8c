"""Nodes and a queue on each engine, with a clock that stands still until it is moved.

PostgreSQL measures waits and silence with a clock of its own, so for time to pass there what it waits for is moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from paddock.core.clock import SystemRandom
from paddock.core.events.event import Event
from paddock.queue import leases, queue
from paddock.queue.job import Job
from paddock.queue.node import Node, NodeRun
from paddock.queue.worker import JobType, Worker
from paddock.store.database import Database, open_database


@dataclass
class StoppedClock:
    """Stands still until a test moves it."""

    at: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)
    ran: float = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.ran

    def pass_time(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.ran += seconds

    def set_back(self, days: int) -> None:
        """Correct the calendar, which was ahead."""
        self.at -= timedelta(days=days)


@dataclass
class Heard:
    """Where units of work tell what they did."""

    events: list[Event] = field(default_factory=list)

    def publish(self, event: Event) -> None:
        self.events.append(event)


@dataclass
class Yard:
    """A database with the nodes that share it."""

    database: Database
    address: str
    clock: StoppedClock = field(default_factory=StoppedClock)
    heard: Heard = field(default_factory=Heard)
    nodes: list[Node] = field(default_factory=list)

    def node(self, name: str, *, lasting: bool = True) -> Node:
        """A host that has just been opened."""
        node = Node(name, self.database, self.clock, daemon=lasting)
        self.nodes.append(node)
        return node

    async def put(self, *keys: str, tenant: str = "default", kind: str = "post", after: float = 0, **more: Any) -> None:
        now = self.clock.now()
        due = now + timedelta(seconds=after)
        for key in keys:
            await self.database.write(
                lambda tx, key=key: queue.enqueue(tx, tenant, kind, key, due=due, now=now, **more)
            )

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for the nodes and for the engine."""
        self.clock.pass_time(seconds)
        if self.database.engine == "postgresql":
            await asyncio.to_thread(pass_time_on_server, self.address, seconds)

    async def take(self, here: NodeRun, places: int = 20) -> list[Job]:
        """Claim what is due one by one, the oldest first."""
        taken: list[Job] = []
        rows = [row for row in await self.left() if row["node"] is None]
        for row in rows:
            work = await self.claim(here, row["key"], tenant=row["tenant"]) if len(taken) < places else None
            taken += [work] if work else []
        return taken

    async def claim(self, here: NodeRun, key: str, tenant: str = "default") -> Job | None:
        now = self.clock.now()
        return await self.database.write(lambda tx: queue.claim_one(tx, here, tenant, "post", key, now=now))

    async def end(self, run: NodeRun) -> None:
        """As others do with a run that they take for dead."""

        def unit(tx: queue.Transaction) -> None:
            assert leases.end_lease(tx, run)
            queue.release_held_by(tx, run)

        await self.database.write(unit)

    async def left(self) -> list[dict[str, Any]]:
        return await self.database.read(
            lambda tx: tx.all("SELECT tenant, key, tries, reason, node, epoch, due_at FROM queue ORDER BY due_at, key")
        )

    def worker(self, node: Node, kinds: dict[str, JobType], *, at_once: int = 4) -> Worker:
        random = SystemRandom()
        return Worker(self.database, node, self.clock, random, kinds, lambda *_: self.heard, max_jobs=at_once)


def pass_time_on_server(address: str, seconds: float) -> None:
    with psycopg.connect(address, autocommit=True) as server:
        server.execute("UPDATE procrastinate_jobs SET scheduled_at = scheduled_at - %s * interval '1 s'", (seconds,))
        server.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - %s * interval '1 s'", (seconds,)
        )


@pytest.fixture
async def yard(database_address: str) -> AsyncGenerator[Yard, None]:
    async with open_database(database_address) as database:
        yard = Yard(database, database_address)
        yield yard
        for node in yard.nodes:
            await node.leave()
