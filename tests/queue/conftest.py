"""Nodes and a queue on each engine, with a clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from paddock.core.clock import SystemRandom
from paddock.core.events.event import Event
from paddock.queue import queue
from paddock.queue.node import Node, NodeRun
from paddock.queue.queue import Job
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
    clock: StoppedClock
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

    async def take(self, here: NodeRun, places: int = 20) -> list[Job]:
        now = self.clock.now()
        return await self.database.write(lambda tx: queue.claim_due(tx, here, ["post"], now=now, slots=places))

    async def left(self) -> list[dict[str, Any]]:
        return await self.database.read(
            lambda tx: tx.all("SELECT key, tries, reason, node, epoch, due_at FROM queue ORDER BY due_at, key")
        )

    def worker(self, node: Node, kinds: dict[str, JobType], *, at_once: int = 4) -> Worker:
        random = SystemRandom()
        return Worker(self.database, node, self.clock, random, kinds, lambda *_: self.heard, max_jobs=at_once)


@pytest.fixture
async def yard(database_address: str) -> AsyncGenerator[Yard, None]:
    async with open_database(database_address) as database:
        yard = Yard(database, StoppedClock())
        yield yard
        for node in yard.nodes:
            await node.leave()
