"""A desk on each engine, with a clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.approvals.model import Approval, ApprovalRequestKind, ApprovedAction
from paddock.approvals.request import ApprovalRequest
from paddock.approvals.service import Approvals
from paddock.core.call import Principal
from paddock.core.clock import SystemRandom
from paddock.core.events.event import Event
from paddock.core.ids import PrincipalId
from paddock.store.database import Database, Transaction, open_database

SEND = ApprovedAction(
    tenant="default",
    plugin="mail",
    callable="send",
    digest="sha256:aa",
    definition="sha256:bb",
    effects=("external_send",),
    policies=("sending-needs-a-yes@11",),
)
PAYLOAD = {"to": "ann@example.org", "text": "Dear Ann"}


@dataclass
class StoppedClock:
    """Stands still until a test moves it."""

    at: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def pass_time(self, **much: float) -> None:
        self.at += timedelta(**much)


@dataclass
class Heard:
    """Where units of work tell what they did."""

    events: list[Event] = field(default_factory=list)

    def publish(self, event: Event) -> None:
        self.events.append(event)

    def types(self) -> list[str]:
        return [event.type for event in self.events]


@dataclass
class Office:
    """Everything that a test about approvals needs."""

    desk: Approvals
    database: Database
    clock: StoppedClock
    heard: Heard

    async def asked(self, kind: ApprovalRequestKind = ApprovalRequestKind.ACTION, **other: Any) -> Approval:
        """A new request of Bob's, who acts for himself."""
        approval, _ = await self.desk.ask(asking(kind, **other))
        return approval

    async def consumed(self, approval_id: str, subject: ApprovedAction = SEND, **other: Any) -> Approval:
        """Use one for the call that it is about, or for another."""
        used = {"payload_hash": None, "requester": "user:bob", "tenant": subject.tenant} | other
        tenant = used.pop("tenant")
        if used["payload_hash"] is None:
            used["payload_hash"] = (await self.desk.find("default", approval_id)).binding.payload_hash

        def unit(tx: Transaction) -> Approval:
            return self.desk.consume(tx, tenant, approval_id, subject=subject, **used)

        return await self.database.write(unit)


def asking(kind: ApprovalRequestKind = ApprovalRequestKind.ACTION, **other: Any) -> ApprovalRequest:
    """A request of Bob's, who acts for himself."""
    plain = ApprovalRequest(
        call="call_1",
        subject=SEND,
        kind=kind,
        payload=PAYLOAD,
        context={"request": "req_1"},
        requester="user:bob",
        for_person="user:bob",
        approvers=("role:approver",),
        quorum=1,
        four_eyes=False,
        reason="sending needs a yes",
        policy_version="v1",
        remember="tool",
    )
    return replace(plain, **other)


def person(name: str, *roles: str, **other: Any) -> Principal:
    """Somebody at a console."""
    return replace(Principal(PrincipalId(f"user:{name}"), roles=frozenset(roles), interactive=True), **other)


ANN, BOB, CLEO = person("ann", "approver"), person("bob", "approver"), person("cleo", "approver")


@pytest.fixture
async def office(database_address: str) -> AsyncGenerator[Office, None]:
    clock, heard = StoppedClock(), Heard()
    async with open_database(database_address) as database:
        approvals = Approvals(database, clock, SystemRandom(), lambda _tx, _tenant, _call: heard)
        yield Office(approvals, database, clock, heard)
