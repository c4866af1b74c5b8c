"""A database with the tenant acme and Ann in it, on each engine, and a place where what changes is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from paddock.approvals.store import ApprovalTransaction
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.events.event import Event
from paddock.core.ids import PrincipalId, Tenant
from paddock.principals.api_keys import ApiKey, create_key
from paddock.principals.people import add_person
from paddock.principals.tenants import add_tenant
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import DirectDatabase, Transaction, open_direct

T = TypeVar("T")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACME = Tenant("acme")


@dataclass
class Office:
    """Where people are looked after. `told` is every event so far."""

    database: DirectDatabase
    now: datetime = NOON
    tenant: Tenant = ACME
    told: list[Event] = field(default_factory=list)

    def publish(self, event: Event) -> None:
        self.told.append(event)

    def read(self, unit: Callable[[Transaction], T]) -> T:
        return self.database.read(unit)

    def change(self, unit: Callable[[AuditedTransaction], T], tenant: str | None = None) -> T:
        """Let the operator change something."""
        return self.database.write(
            lambda tx: unit(
                AuditedTransaction(
                    tx, Tenant(tenant or self.tenant), PrincipalId("local:ada"), self.now.isoformat(), self
                )
            )
        )

    def removal(self, work: Callable[[AuditedTransaction, ApprovalTransaction], T]) -> T:
        """Let the operator remove somebody, with what is theirs among requests for a yes."""

        def unit(change: AuditedTransaction) -> T:
            return work(
                change,
                ApprovalTransaction(
                    change.tx, change.tenant, change.now, SystemClock(), SystemRandom(), lambda *_: self
                ),
            )

        return self.change(unit)

    def later(self, **more: float) -> Office:
        return dataclasses.replace(self, now=self.now + timedelta(**more))

    def key(self, owner: str = "ann", *, tenant: str | None = None, **more: Any) -> tuple[ApiKey, str]:
        """A new key, and its token."""
        key, token = self.change(lambda change: create_key(change, owner, SystemRandom(), **more), tenant)
        return key, token.reveal()


@pytest.fixture
def office(database_address: str) -> Generator[Office, None, None]:
    with open_direct(database_address) as database:
        made = Office(database)
        made.change(lambda change: add_tenant(change, "acme", "Acme Labs"), "default")
        made.change(lambda change: add_person(change, "ann", roles=("member", "approver"), scopes=("email:send",)))
        yield made
