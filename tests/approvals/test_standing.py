"""A yes that lasts: for whom, for what, and until when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.approvals.conftest import ANN, CLEO, SEND, Office

from paddock.approvals.answer import ApprovalReach, RememberChoice
from paddock.approvals.model import ApprovalState
from paddock.approvals.standing_approval import StandingApproval
from paddock.core.errors import NotFound


async def standing(office: Office, lasting: RememberChoice | None = None, **other: Any) -> StandingApproval:
    approval = await office.asked(**other)
    await office.desk.approve("default", approval.id, ANN, remember=lasting or RememberChoice("always"))
    (one,) = await office.desk.list_standing("default")
    return one


async def test_an_always_is_good_for_the_next_call_of_the_same_requester(office: Office) -> None:
    one = await standing(office)

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


@pytest.mark.parametrize(
    ("first", "second", "lasts"),
    [
        (RememberChoice(), RememberChoice("always"), None),
        (RememberChoice("always"), RememberChoice(), None),
        (RememberChoice("always"), RememberChoice("always"), (None, "send")),
        (RememberChoice("always", "plugin"), RememberChoice("session"), ("ses_1", "send")),
    ],
)
async def test_a_yes_that_lasts_takes_as_many_people_as_one_that_does_not(
    office: Office, first: RememberChoice, second: RememberChoice, lasts: Any
) -> None:
    approval = await office.asked(quorum=2, remember="plugin", context={"session": "ses_1"})

    await office.desk.approve("default", approval.id, ANN, remember=first)
    assert await office.desk.list_standing("default") == []
    approved = await office.desk.approve("default", approval.id, CLEO, remember=second)

    kept = [(one.session, one.callable) for one in await office.desk.list_standing("default")]
    assert (approved.state, kept) == (ApprovalState.APPROVED, [lasts] if lasts else [])


async def test_one_for_a_session_ends_with_it(office: Office) -> None:
    context = {"request": "req_1", "session": "ses_1"}
    one = await standing(office, RememberChoice("session"), context=context)

    assert await office.desk.standing_for(SEND, "user:bob", "ses_1") == one
    assert await office.desk.standing_for(SEND, "user:bob", "ses_2") is None
    assert await office.desk.standing_for(SEND, "user:bob", None) is None


async def test_a_revoked_one_is_good_for_nothing(office: Office) -> None:
    one = await standing(office)

    await office.desk.revoke("default", one.id, ANN)
    await office.desk.revoke("default", one.id, ANN)

    assert await office.desk.standing_for(SEND, "user:bob", None) is None
    assert await office.desk.list_standing("default") == []
    assert office.heard.types().count("approval.standing_revoked") == 1
    with pytest.raises(NotFound):
        await office.desk.revoke("other", one.id, ANN)
