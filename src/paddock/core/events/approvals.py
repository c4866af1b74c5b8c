"""Audit events of approvals: requests to people, their answers, and how the requests ended."""

from __future__ import annotations

from paddock.core.events.event import Event, event


@event("approval.requested")
class ApprovalRequested(Event, frozen=True):
    """A call waits for approval by a person."""

    approval: str
    kind: str
    name: str
    method: str
    binding: str
    policies: tuple[str, ...]
    requester: str
    expires_at: str


@event("approval.answered")
class ApprovalAnswered(Event, frozen=True):
    """A person answered an approval request; `state` is its new state, `operator` who relayed the answer, if anyone.

    `standing` is the standing approval that answered it, if it waited when that was given.
    """

    approval: str
    name: str
    method: str
    approved: bool
    answered_by: str
    comment: str
    state: str
    operator: str | None = None
    standing: str | None = None


@event("approval.consumed")
class ApprovalConsumed(Event, frozen=True):
    """An approved call starts; its approval cannot be used again."""

    approval: str
    name: str
    method: str
    binding: str
    approved_by: tuple[str, ...]


@event("approval.ended")
class ApprovalEnded(Event, frozen=True):
    """An approval request ended without its call: it expired, was withdrawn or edited, or its subject changed."""

    approval: str
    name: str
    method: str
    state: str
    ended_why: str


@event("approval.standing_given")
class StandingApprovalGiven(Event, frozen=True):
    """A person gave a standing approval; `method` is null if it covers all methods of the plugin."""

    standing: str
    approval: str
    name: str
    method: str | None
    scope: str
    holder: str
    given_by: str
    operator: str | None = None


@event("approval.standing_revoked")
class StandingApprovalRevoked(Event, frozen=True):
    """A standing approval was revoked."""

    standing: str
    name: str
    method: str | None
    revoked_by: str
    operator: str | None = None
