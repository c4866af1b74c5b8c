"""Webhooks on one database, with hosts that deliver to a receiver on loopback, and a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.events.receiver import Receiver
from tests.queue.conftest import StoppedClock
from tests.secrets.safe import keys_at

from paddock.core.clock import SystemRandom
from paddock.core.events_principals import GroupChanged
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.events import webhook
from paddock.events.dead_letters import DeadLetter, dead_letters
from paddock.events.delivering import Delivery
from paddock.events.keeping import Keeping
from paddock.events.noticing import Noticing
from paddock.events.sending import Receivers, Sender
from paddock.events.verdict import Terms
from paddock.events.webhook import DELIVER, Webhook
from paddock.ledger.append import LedgerTable
from paddock.principals.change import Change
from paddock.queue.node import Node
from paddock.queue.worker import Kind, Worker
from paddock.secrets.keys import Keys
from paddock.secrets.vault import Vault
from paddock.store.database import Database, DirectDatabase, Transaction, open_database, open_direct

RANDOM = SystemRandom()
SOURCE = "urn:paddock"


async def never() -> None:
    raise AssertionError("nobody waits here")


@dataclass
class Host:
    """One host of the database: it notices, and it delivers."""

    node: Node
    delivery: Delivery
    noticing: Noticing
    worker: Worker


@dataclass
class Office:
    """What the hosts share."""

    database: Database
    direct: DirectDatabase
    keys: Keys
    clock: StoppedClock = field(default_factory=StoppedClock)
    nodes: list[Node] = field(default_factory=list)

    def keeping(self) -> Keeping:
        def deed(tx: Transaction) -> Change:
            told = LedgerTable(tx, self.clock, RANDOM, DEFAULT_TENANT)
            return Change(tx, DEFAULT_TENANT, PrincipalId("local:ada"), self.clock.now().isoformat(), told)

        receivers = Receivers(["127.0.0.1"])
        return Keeping(self.direct, self.keys, receivers, self.clock, RANDOM, DEFAULT_TENANT, deed)

    def hook(self, receiver: Receiver, *types: str, path: str = "/hook") -> str:
        made, secret = self.keeping().add(receiver.url(path), types or ("group.*",), "", personal=False)
        receiver.secrets.append(secret.reveal())
        return made.id

    def shown(self, hook: str) -> Webhook:
        return self.direct.read(lambda tx: webhook.require(tx, DEFAULT_TENANT, hook))

    def dead(self, hook: str) -> list[DeadLetter]:
        return self.direct.read(lambda tx: dead_letters(tx, DEFAULT_TENANT, hook))

    async def happen(self, *names: str) -> None:
        def unit(tx: Transaction) -> None:
            for name in names:
                event = GroupChanged(group=name, change="added", person=None, by="local:ada")
                LedgerTable(tx, self.clock, RANDOM, DEFAULT_TENANT).publish(event)

        await self.database.write(unit)

    def host(self, name: str, terms: Terms | None = None) -> Host:
        node = Node(name, self.database, self.clock, lasting=True)
        self.nodes.append(node)

        def told(tx: Transaction, tenant: str, call: str | None) -> LedgerTable:
            return LedgerTable(tx, self.clock, RANDOM, tenant, call)

        sender = Sender(Receivers(["127.0.0.1"]), self.clock)
        vault = Vault(self.database, self.keys)
        delivery = Delivery(self.database, vault, sender, self.clock, RANDOM, terms or Terms(), SOURCE, told)
        worker = Worker(self.database, node, self.clock, RANDOM, {DELIVER: Kind(delivery.run)}, told)
        return Host(node, delivery, Noticing(self.database, self.clock, SOURCE, never, worker.wake), worker)


@asynccontextmanager
async def office_at(address: str, state: Path) -> AsyncGenerator[Office, None]:
    async with open_database(address) as database:
        with open_direct(address) as direct:
            office = Office(database, direct, keys_at(state))
            yield office
            for node in office.nodes:
                await node.leave()
