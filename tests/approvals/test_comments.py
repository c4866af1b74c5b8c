"""What people write with their answers: comments that are kept, told and shown on terminals, and other parameters."""

from __future__ import annotations

from tests.approvals.conftest import ANN, CLEO, Office

from paddock.approvals.answer import MAX_COMMENT_CHARS
from paddock.core.events.approvals import ApprovalAnswered


async def test_a_comment_is_kept_and_told_as_a_bounded_line_that_prints(office: Office) -> None:
    approval = await office.asked(quorum=2)

    await office.desk.approve("default", approval.id, ANN, comment="fine\x1b[2J\nby me")
    denied = await office.desk.deny("default", approval.id, CLEO, comment="no " * 2_000_000)

    said, no = (answer.comment for answer in denied.answers)
    assert said == "fine\\x1b[2J\\nby me"
    assert (len(no), no[-1]) == (MAX_COMMENT_CHARS, "…")
    assert denied.ended_why == no
    assert [event.comment for event in office.heard.events if isinstance(event, ApprovalAnswered)] == [said, no]


async def test_why_a_request_was_edited_is_told_in_the_same_way(office: Office) -> None:
    approval = await office.asked()

    await office.desk.approve("default", approval.id, ANN, comment="\x1b[2J", payload={"to": "bob@example.org"})

    assert "\x1b" not in (await office.desk.find("default", approval.id)).ended_why


async def test_one_is_another_parameter_than_true(office: Office) -> None:
    approval = await office.asked(payload={"to": True})

    edited = await office.desk.approve("default", approval.id, ANN, payload={"to": 1})

    assert (edited.replaces, edited.payload) == (approval.id, {"to": 1})
