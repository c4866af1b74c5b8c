"""A person is removed while a call of theirs waits: the call ends, here and for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.gate.test_governed_calls import EVE, Office, made_by, outcome

from paddock.approvals.removal import remove_person
from paddock.approvals.store import ApprovalTransaction
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import NeedsApproval
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.people import add_person
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction, open_direct

CLOCK, RANDOM = SystemClock(), SystemRandom()
ADA = PrincipalId("local:ada")


def beside(office: Office, *, remove: bool) -> None:
    """What a command does beside the host."""

    def unit(tx: Transaction) -> None:
        now = CLOCK.now().isoformat()
        change = AuditedTransaction(tx, DEFAULT_TENANT, ADA, now, TransactionLedger(tx, CLOCK, RANDOM, "default"))
        if remove:
            desk = ApprovalTransaction(
                tx,
                DEFAULT_TENANT,
                now,
                CLOCK,
                RANDOM,
                lambda tx, tenant, call: TransactionLedger(tx, CLOCK, RANDOM, tenant, call, ADA),
            )
            remove_person(change, desk, "eve")
        else:
            add_person(change, "eve", roles=("member",))

    with open_direct(office.home / "data" / "paddock.db") as database:
        database.write(unit)


@pytest.mark.req("B-23", "revoked rights end waiting calls")
async def test_a_call_that_waits_ends_when_who_asked_for_it_is_removed(tmp_path: Path) -> None:
    office = Office(tmp_path)
    async with office.open() as host:
        beside(office, remove=False)
        with pytest.raises(NeedsApproval) as waits:
            await host.call("mail.send", {"to": "bob"}, context=made_by(replace(EVE, roles=frozenset({"member"}))))
        call = waits.value.details["call_id"]

        beside(office, remove=True)
        ended = await outcome(host, call)

        assert (ended["status"], ended["error"]["code"]) == ("failed", "approval.voided")
    assert office.done == []
    (entry,) = [entry for entry in office.ledger() if entry.type == "approval.ended"]
    assert (entry.call, entry.data["state"], entry.personal["principal"]) == (call, "voided", "local:ada")
