"""Who goes takes along what they asked for and what was said to them: whoever gets the name begins with nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from tests.approvals.conftest import ANN, BOB, SEND, Office

from paddock.approvals.model import Approval, ApprovalRequestKind, ApprovalState
from paddock.approvals.removal import remove_group, remove_person, retire_key
from paddock.approvals.store import ApprovalTransaction
from paddock.core.clock import SystemRandom
from paddock.core.errors import Conflict
from paddock.core.events.approvals import StandingApprovalRevoked
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.principals.api_keys import create_key
from paddock.principals.groups import add_group
from paddock.principals.people import add_person
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction

T = TypeVar("T")


async def change(office: Office, work: Callable[[AuditedTransaction, ApprovalTransaction], T]) -> T:
    def unit(tx: Transaction) -> T:
        now, random = office.clock.now().isoformat(), SystemRandom()
        made = AuditedTransaction(tx, DEFAULT_TENANT, PrincipalId("local:ada"), now, office.heard)
        return work(made, ApprovalTransaction(tx, DEFAULT_TENANT, now, office.clock, random, lambda *_: office.heard))

    return await office.database.write(unit)


async def state_of(office: Office, approval: Approval) -> ApprovalState:
    return (await office.desk.find("default", approval.id)).state


async def test_whoever_gets_a_removed_persons_name_has_none_of_their_standing_approvals(office: Office) -> None:
    await change(office, lambda made, _: add_person(made, "bob"))
    asked = await office.asked(ApprovalRequestKind.CONFIRMATION)
    await office.desk.approve("default", asked.id, BOB)
    assert await office.desk.standing_for(SEND, "user:bob", None)

    await change(office, lambda made, unit: remove_person(made, unit, "bob"))
    await change(office, lambda made, _: add_person(made, "bob"))

    assert await office.desk.standing_for(SEND, "user:bob", None) is None
    (told,) = [event for event in office.heard.events if isinstance(event, StandingApprovalRevoked)]
    assert told.revoked_by == "local:ada"


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"requester": "agent:helper"},
        {"requester": "user:eve", "for_person": "user:eve", "approvers": ("role:approver", "user:bob")},
    ],
    ids=["asked by them", "asked for them", "asked of them"],
)
async def test_what_is_open_of_a_person_ends_with_them(office: Office, other: dict[str, Any]) -> None:
    await change(office, lambda made, _: add_person(made, "bob"))
    waits, approved = await office.asked(**other), await office.asked(**other)
    await office.desk.approve("default", approved.id, ANN)
    of_somebody_else = await office.asked(requester="user:eve", for_person="user:eve")

    await change(office, lambda made, unit: remove_person(made, unit, "bob"))

    assert [await state_of(office, one) for one in (waits, approved)] == [ApprovalState.VOIDED, ApprovalState.VOIDED]
    assert await state_of(office, of_somebody_else) is ApprovalState.PENDING
    assert office.heard.types().count("approval.ended") == 2
    with pytest.raises(Conflict, match="was removed"):
        await office.desk.approve("default", waits.id, ANN)


async def test_what_was_asked_with_a_key_ends_with_the_key_and_with_its_owner(office: Office) -> None:
    await change(office, lambda made, _: add_person(made, "bob"))
    one, two = [await change(office, lambda made, _: create_key(made, "bob", SystemRandom())[0].id) for _ in range(2)]
    asked = [await office.asked(requester=f"key:{key}") for key in (one, two)]
    asked.append(await office.asked(ApprovalRequestKind.CONFIRMATION, requester=f"key:{one}"))
    await office.desk.approve("default", asked[2].id, BOB)

    await change(office, lambda made, unit: retire_key(made, unit, one))

    assert [await state_of(office, each) for each in asked] == [
        ApprovalState.VOIDED,
        ApprovalState.PENDING,
        ApprovalState.VOIDED,
    ]
    assert await office.desk.list_standing("default") == []
    await change(office, lambda made, unit: remove_person(made, unit, "bob"))
    assert await state_of(office, asked[1]) is ApprovalState.VOIDED


async def test_another_group_of_the_same_name_answers_nothing_that_the_first_was_asked(office: Office) -> None:
    await change(office, lambda made, _: add_group(made, "night-shift"))
    asked = await office.asked(approvers=("group:night-shift",))
    await change(office, lambda made, unit: remove_group(made, unit, "night-shift"))
    await change(office, lambda made, _: add_group(made, "night-shift"))
    assert await state_of(office, asked) is ApprovalState.VOIDED
