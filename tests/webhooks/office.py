"""Webhooks on one database, with hosts that deliver to a receiver on loopback, and a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.queue.conftest import StoppedClock
from tests.secrets.safe import keys_at
from tests.webhooks.receiver import Receiver

from paddock.core.clock import SystemRandom
from paddock.core.events.principals import GroupChanged
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.ledger.write.append import TransactionLedger
from paddock.queue.node import Node
from paddock.queue.worker import JobType, Worker
from paddock.secrets.vault import Vault
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Database, DirectDatabase, Transaction, open_database, open_direct
from paddock.webhooks import webhook
from paddock.webhooks.admin import WebhookAdmin
from paddock.webhooks.dead_letters import DeadLetter, list_dead_letters
from paddock.webhooks.delivery import WebhookDelivery
from paddock.webhooks.outbox import WebhookOutbox
from paddock.webhooks.retry import DeliveryRetryPolicy
from paddock.webhooks.sender import ReceiverDestinations, WebhookSender
from paddock.webhooks.webhook import DELIVERY_JOB, Webhook

RANDOM = SystemRandom()
SOURCE = "urn:paddock"


async def never() -> None:
    raise AssertionError("nobody waits here")


@dataclass
class Host:
    """One host of the database: it notices, and it delivers."""

    node: Node
    delivery: WebhookDelivery
    noticing: WebhookOutbox
    worker: Worker


@dataclass
class Office:
    """What the hosts share."""

    database: Database
    direct: DirectDatabase
    keys: WrappingKeys
    clock: StoppedClock = field(default_factory=StoppedClock)
    nodes: list[Node] = field(default_factory=list)

    def keeping(self) -> WebhookAdmin:
        def deed(tx: Transaction) -> AuditedTransaction:
            told = TransactionLedger(tx, self.clock, RANDOM, DEFAULT_TENANT)
            return AuditedTransaction(tx, DEFAULT_TENANT, PrincipalId("local:ada"), self.clock.now().isoformat(), told)

        receivers = ReceiverDestinations(["127.0.0.1"])
        return WebhookAdmin(self.direct, self.keys, receivers, self.clock, RANDOM, DEFAULT_TENANT, deed)

    def hook(self, receiver: Receiver, *types: str, path: str = "/hook") -> str:
        made, secret = self.keeping().add(receiver.url(path), types or ("group.*",), "", personal=False)
        receiver.secrets.append(secret.reveal())
        return made.id

    def shown(self, hook: str) -> Webhook:
        return self.direct.read(lambda tx: webhook.require(tx, DEFAULT_TENANT, hook))

    def dead(self, hook: str) -> list[DeadLetter]:
        return self.direct.read(lambda tx: list_dead_letters(tx, DEFAULT_TENANT, hook))

    async def happen(self, *names: str) -> None:
        def unit(tx: Transaction) -> None:
            for name in names:
                event = GroupChanged(group=name, change="added", person=None, by="local:ada")
                TransactionLedger(tx, self.clock, RANDOM, DEFAULT_TENANT).publish(event)

        await self.database.write(unit)

    def host(self, name: str, terms: DeliveryRetryPolicy | None = None) -> Host:
        node = Node(name, self.database, self.clock, daemon=True)
        self.nodes.append(node)

        def told(tx: Transaction, tenant: str, call: str | None) -> TransactionLedger:
            return TransactionLedger(tx, self.clock, RANDOM, tenant, call)

        sender = WebhookSender(ReceiverDestinations(["127.0.0.1"]), self.clock)
        vault = Vault(self.database, self.keys)
        delivery = WebhookDelivery(
            self.database, vault, sender, self.clock, RANDOM, terms or DeliveryRetryPolicy(), SOURCE, told
        )
        worker = Worker(self.database, node, self.clock, RANDOM, {DELIVERY_JOB: JobType(delivery.run)}, told)
        return Host(node, delivery, WebhookOutbox(self.database, self.clock, SOURCE, never, worker.wake), worker)


@asynccontextmanager
async def office_at(address: str, state: Path) -> AsyncGenerator[Office, None]:
    async with open_database(address) as database:
        with open_direct(address) as direct:
            office = Office(database, direct, keys_at(state))
            yield office
            for node in office.nodes:
                await node.leave()
