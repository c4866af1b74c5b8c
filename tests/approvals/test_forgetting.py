"""Nothing is known any more of a person: not by their requests, their answers, nor what their keys did."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.approvals.conftest import ANN, BOB, CLEO, Office, person
from tests.approvals.test_leaving import change

from paddock.approvals.erasure import ErasureResult, erase_person
from paddock.approvals.model import ApprovalRequestKind, ApprovalState
from paddock.approvals.removal import remove_person
from paddock.approvals.store import ApprovalTransaction
from paddock.core.clock import SystemRandom
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.plugin_runtime import PluginMethodCalled
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.api_keys import create_key
from paddock.principals.consents import give_consent
from paddock.principals.people import add_person
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction

ADA = PrincipalId("local:ada")
TABLES = ("approvals", "approval_answers", "standing_approvals", "person_consents", "ledger")


async def forgotten(office: Office, who: str) -> ErasureResult:
    def work(tx: Transaction) -> ErasureResult:
        random = SystemRandom()
        unit = ApprovalTransaction(
            tx,
            DEFAULT_TENANT,
            office.clock.now().isoformat(),
            office.clock,
            random,
            lambda tx, tenant, call: TransactionLedger(tx, office.clock, random, tenant, call, ADA),
        )
        return erase_person(unit, who, by=ADA, explanation="asked")

    return await office.database.write(work)


async def everything(office: Office) -> str:
    """All that these tables hold, as text."""

    def read(tx: Transaction) -> list[Any]:
        return [tx.all(f"SELECT * FROM {table}") for table in TABLES]

    return json.dumps(await office.database.read(read), default=repr)


async def test_of_a_removed_persons_requests_answers_and_consents_nothing_is_left_that_names_them(
    office: Office,
) -> None:
    await change(office, lambda made, _: add_person(made, "bob"))
    await change(office, lambda made, _: give_consent(made, "user:bob", "mail", "send"))
    used = await office.asked(payload={"to": "a secret place"}, context={"request": "req_1", "session": "ses_bob"})
    await office.desk.approve("default", used.id, ANN, comment="Bob asked me")
    await office.consumed(used.id)
    confirmed = await office.asked(ApprovalRequestKind.CONFIRMATION, context={"request": "req_2"})
    await office.desk.approve("default", confirmed.id, BOB, comment="I mean it")
    other = await office.asked(requester="user:eve", for_person="user:eve")
    await office.desk.deny("default", other.id, BOB, comment="not on my watch")
    await change(office, lambda made, unit: remove_person(made, unit, "bob"))

    done = await forgotten(office, "user:bob")

    assert done.rows == 7  # two requests, two answers, a consent, and a standing approval that they gave and held
    left = await everything(office)
    for word in ("user:bob", "a secret place", "ses_bob", "Bob asked me", "I mean it", "not on my watch"):
        assert word not in left
    assert (await office.desk.find("default", used.id)).state is ApprovalState.CONSUMED
    (answer,) = (await office.desk.find("default", other.id)).answers
    assert (answer.approved, answer.by[:7]) == (False, "erased:")
    with pytest.raises(NotFound):
        await forgotten(office, "user:bob")


async def test_what_an_erased_person_may_still_answer_ends_when_they_are_removed(office: Office) -> None:
    await change(office, lambda made, _: add_person(made, "bob"))
    asked = {"requester": "user:eve", "for_person": "user:eve", "approvers": ("user:bob",)}
    ended, waits = await office.asked(**asked), await office.asked(**asked)
    await office.desk.deny("default", ended.id, BOB)
    bob = person("bob")

    await forgotten(office, "user:bob")
    assert [one.id for one in await office.desk.page("default", to=bob)] == [waits.id]
    await change(office, lambda made, unit: remove_person(made, unit, "bob"))
    await change(office, lambda made, _: add_person(made, "bob"))

    assert (await office.desk.find("default", waits.id)).state is ApprovalState.VOIDED
    with pytest.raises(Conflict):
        await office.desk.approve("default", waits.id, bob)


async def test_what_is_open_is_voided_first_and_others_requests_stay(office: Office) -> None:
    mine, theirs = await office.asked(), await office.asked(requester="user:eve", for_person="user:eve")
    half = await office.asked(requester="user:eve", for_person="user:eve", quorum=2)
    await office.desk.approve("default", half.id, CLEO)

    await forgotten(office, "user:bob")
    await forgotten(office, "user:cleo")

    found = [await office.desk.find("default", one.id) for one in (mine, theirs, half)]
    assert [one.state for one in found] == [ApprovalState.VOIDED, ApprovalState.PENDING, ApprovalState.VOIDED]
    assert (found[0].payload, found[0].binding.requester, found[1].payload["text"]) == ({}, "", "Dear Ann")


async def test_what_was_done_with_a_key_goes_with_its_owner_also_when_the_key_is_gone(office: Office) -> None:
    def work(tx: Transaction) -> TransactionLedger:
        return TransactionLedger(tx, office.clock, SystemRandom(), "default")

    await change(office, lambda made, _: add_person(made, "bob"))
    now = office.clock.now().isoformat()
    key = await office.database.write(
        lambda tx: create_key(AuditedTransaction(tx, DEFAULT_TENANT, ADA, now, work(tx)), "bob", SystemRandom())[0].id
    )
    called = PluginMethodCalled("mail", "send", "req_1", None, None)
    await office.database.write(lambda tx: work(tx).record(called, principal=f"key:{key}"))
    await office.database.write(lambda tx: work(tx).record(called, principal="key:another2"))
    await change(office, lambda made, unit: remove_person(made, unit, "bob"))

    done = await forgotten(office, "user:bob")

    assert done.entries == 2  # that the key was made, and the call
    left = await everything(office)
    assert f"key:{key}" not in left
    assert "key:another2" in left
