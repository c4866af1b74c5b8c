"""The outcome of a request, in words."""

from __future__ import annotations

from typing import Any

from paddock.cli.output.outcome_text import describe_approval, is_closed

AT = "2026-03-01T12:00:00+00:00"


def request(state: str, **other: Any) -> dict[str, Any]:
    """A request of Bob's, as `approval show --json` has it."""
    plain: dict[str, Any] = {
        "state": state,
        "kind": "action",
        "call_id": "call_1",
        "requester": "user:bob",
        "for_person": "user:bob",
        "approvers": ["role:approver", "role:operator"],
        "quorum": 1,
        "four_eyes": True,
        "expires_at": "2026-03-01T12:15:00+00:00",
        "ended_at": None if state in ("pending", "approved") else AT,
        "ended_why": "",
        "replaces": None,
        "replaced_by": None,
        "standing": None,
        "also_approved": [],
        "answers": [],
    }
    return plain | other


def answer(by: str, *, approved: bool, comment: str = "", operator: str | None = None, **other: Any) -> dict[str, Any]:
    lasts = {"scope": "once", "reach": "tool", "standing": None}
    return {"by": by, "approved": approved, "comment": comment, "operator": operator, "at": AT} | lasts | other


def test_until_when_is_told_only_while_it_is_open() -> None:
    (waits,) = describe_approval(request("pending"))
    (approved,) = describe_approval(request("approved"))

    assert waits == "pending until 2026-03-01T12:15:00; 1 of role:approver or role:operator, not the requester"
    assert approved == "approved until 2026-03-01T12:15:00; the call was not made yet"
    for state in ("consumed", "denied", "expired", "voided", "withdrawn"):
        assert is_closed(request(state))
        assert "until" not in " ".join(describe_approval(request(state)))


def test_a_no_is_told_with_who_said_it_when_and_why() -> None:
    denied = request(
        "denied", answers=[answer("user:ann", approved=False, comment="not to her")], ended_why="not to her"
    )

    assert describe_approval(denied) == [
        "user:ann denied it: not to her (2026-03-01T12:00:00)",
        "denied at 2026-03-01T12:00:00",
    ]


def test_a_used_yes_names_its_call_and_the_yes_that_lasts() -> None:
    used = request(
        "consumed",
        kind="confirmation",
        replaces="apr_a",
        standing="sta_1",
        also_approved=[{"id": "apr_c", "call_id": "call_2"}],
        answers=[answer("user:ann", approved=True, operator="local:root", scope="always")],
    )

    assert describe_approval(used) == [
        "it replaced apr_a",
        "local:root, as user:ann, approved it for all calls of the tool, until the plugin is upgraded"
        " (2026-03-01T12:00:00)",
        "approved and used at 2026-03-01T12:00:00",
        "the call that was made: paddock explain call_1",
        "it became a standing approval: sta_1",
        "it waited for the same, and was approved too: apr_c",
    ]


def test_what_is_void_says_why_and_what_replaced_it() -> None:
    why = "user:ann changed the parameters; see apr_b"

    assert describe_approval(request("voided", ended_why=why, replaced_by="apr_b")) == [f"void since {AT[:19]}: {why}"]


def test_after_an_erasure_nothing_is_left_empty() -> None:
    erased = request(
        "voided",
        requester="",
        for_person="",
        approvers=[],
        replaced_by="apr_b",
        answers=[answer("erased:0a1b2c3d", approved=True)],
    )

    assert describe_approval(erased) == [
        "(erased) approved it (2026-03-01T12:00:00)",
        "void since 2026-03-01T12:00:00: (erased)",
        "apr_b replaced it",
    ]
