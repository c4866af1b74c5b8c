"""A yes that lasts: for whom, for what, and until when."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.approvals.conftest import BOB, SEND, Office

from paddock.approvals.answer import ApprovalReach, RememberChoice
from paddock.approvals.model import ApprovalRequestKind, ApprovalState
from paddock.approvals.standing_approval import StandingApproval
from paddock.core.errors import NotFound
from paddock.core.events.approvals import ApprovalAnswered

CONFIRMED = ApprovalRequestKind.CONFIRMATION


async def standing(office: Office, lasting: RememberChoice | None = None, **other: Any) -> StandingApproval:
    approval = await office.asked(CONFIRMED, **other)
    await office.desk.approve("default", approval.id, BOB, comment="this one", remember=lasting)
    (one,) = await office.desk.list_standing("default")
    return one


@pytest.mark.parametrize("lasting", [None, RememberChoice("always")])
async def test_what_is_confirmed_is_good_for_the_next_call_of_the_same_requester(
    office: Office, lasting: RememberChoice | None
) -> None:
    one = await standing(office, lasting)

    assert await office.desk.standing_for(SEND, "user:bob", None) == one
    assert await office.desk.standing_for(SEND, "user:bob", "ses_1") == one
    assert await office.desk.standing_for(SEND, "user:eve", None) is None
    assert "approval.standing_given" in office.heard.types()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tenant", "other"),
        ("plugin", "post"),
        ("callable", "send_all"),
        ("digest", "sha256:cc"),
        ("definition", "sha256:dd"),
        ("effects", ("external_send", "db_write")),
        ("policies", ("sending-needs-a-yes@22",)),
        ("policies", ("sending-needs-a-yes@11", "and-another@1")),
    ],
)
async def test_it_is_not_good_for_anything_that_changed(office: Office, field: str, value: object) -> None:
    await standing(office)

    assert await office.desk.standing_for(replace(SEND, **{field: value}), "user:bob", None) is None


@pytest.mark.parametrize(("reach", "good"), [("tool", False), ("plugin", True)])
async def test_one_for_a_plugin_is_good_for_its_other_tools(office: Office, reach: ApprovalReach, good: bool) -> None:
    await standing(office, RememberChoice("always", reach), remember="plugin")
    other = replace(SEND, callable="draft", definition="sha256:ee", effects=("db_write",))

    assert (await office.desk.standing_for(other, "user:bob", None) is not None) is good
    assert await office.desk.standing_for(replace(other, digest="sha256:cc"), "user:bob", None) is None


async def test_once_is_for_its_call_alone(office: Office) -> None:
    one, waits = await office.asked(CONFIRMED), await office.asked(CONFIRMED)

    await office.desk.approve("default", one.id, BOB, remember=RememberChoice("once"))

    assert await office.desk.list_standing("default") == []
    assert (await office.desk.find("default", waits.id)).state is ApprovalState.PENDING


async def test_what_waits_already_and_is_covered_is_answered_with_it(office: Office) -> None:
    elsewhere = {"context": {"session": "ses_2"}}
    covered = [await office.asked(CONFIRMED, payload={"to": name}, **elsewhere) for name in ("ann", "cleo")]
    others = [
        await office.asked(CONFIRMED, subject=replace(SEND, callable="draft")),
        await office.asked(CONFIRMED, subject=replace(SEND, digest="sha256:cc")),
        await office.asked(CONFIRMED, subject=replace(SEND, policies=("another@1",))),
        await office.asked(CONFIRMED, requester="user:eve", for_person="user:eve"),
        await office.asked(CONFIRMED, for_person="user:eve"),
        await office.asked(CONFIRMED, remember="never"),
        await office.asked(),
    ]

    one = await standing(office)

    found = [await office.desk.find("default", request.id) for request in covered]
    assert [(each.state, each.answers[0].by, each.answers[0].standing) for each in found] == [
        (ApprovalState.APPROVED, "user:bob", one.id)
    ] * 2
    assert [each.answers[0].comment for each in found] == ["", ""], "what was said of one call was not said of these"
    assert {each.id for each in await office.desk.list_answered_by("default", one.id)} == {each.id for each in covered}
    answers = [event for event in office.heard.events if isinstance(event, ApprovalAnswered)]
    assert {(event.approval, event.standing) for event in answers} == {
        (one.approval, None),
        *((request.id, one.id) for request in covered),
    }
    for other in others:
        assert (await office.desk.find("default", other.id)).state is ApprovalState.PENDING


async def test_what_expired_while_it_waited_is_not_answered_with_it(office: Office) -> None:
    late = await office.asked(CONFIRMED)
    office.clock.pass_time(minutes=15)

    one = await standing(office)

    assert (await office.desk.find("default", late.id)).state is ApprovalState.PENDING
    assert await office.desk.list_answered_by("default", one.id) == []


async def test_one_for_a_session_answers_what_waits_in_it(office: Office) -> None:
    here, there = [await office.asked(CONFIRMED, context={"session": name}) for name in ("ses_1", "ses_2")]

    await standing(office, RememberChoice("session"), context={"session": "ses_1"})

    states = [(await office.desk.find("default", one.id)).state for one in (here, there)]
    assert states == [ApprovalState.APPROVED, ApprovalState.PENDING]


async def test_one_for_a_session_ends_with_it(office: Office) -> None:
    context = {"request": "req_1", "session": "ses_1"}
    one = await standing(office, RememberChoice("session"), context=context)

    assert await office.desk.standing_for(SEND, "user:bob", "ses_1") == one
    assert await office.desk.standing_for(SEND, "user:bob", "ses_2") is None
    assert await office.desk.standing_for(SEND, "user:bob", None) is None


async def test_a_revoked_one_is_good_for_nothing(office: Office) -> None:
    one = await standing(office)

    await office.desk.revoke("default", one.id, BOB)
    await office.desk.revoke("default", one.id, BOB)

    assert await office.desk.standing_for(SEND, "user:bob", None) is None
    assert await office.desk.list_standing("default") == []
    assert office.heard.types().count("approval.standing_revoked") == 1
    with pytest.raises(NotFound):
        await office.desk.revoke("other", one.id, BOB)
