"""Audit events of approvals: requests to people, their answers, and how the requests ended."""

from __future__ import annotations

from paddock.core.events.event import Event, event


@event("approval.requested")
class ApprovalRequested(Event):
    """A call waits for a person."""

    approval: str
    kind: str
    name: str
    method: str
    binding: str
    policies: tuple[str, ...]
    requester: str
    expires_at: str


@event("approval.answered")
class ApprovalAnswered(Event):
    """A person answered; `state` is what the request is in now, and `operator` who passed the answer on, if anybody."""

    approval: str
    name: str
    method: str
    approved: bool
    answered_by: str
    comment: str
    state: str
    operator: str | None = None


@event("approval.consumed")
class ApprovalConsumed(Event):
    """The call that was approved starts; the approval is good for nothing else."""

    approval: str
    name: str
    method: str
    binding: str
    approved_by: tuple[str, ...]


@event("approval.ended")
class ApprovalEnded(Event):
    """A request ended without its call: it expired, was withdrawn, edited, or what it was about has changed."""

    approval: str
    name: str
    method: str
    state: str
    ended_why: str


@event("approval.standing_given")
class StandingApprovalGiven(Event):
    """A person's yes is good for more than one call; `method` is null where it is for all of the plugin's."""

    standing: str
    approval: str
    name: str
    method: str | None
    scope: str
    holder: str
    given_by: str
    operator: str | None = None


@event("approval.standing_revoked")
class StandingApprovalRevoked(Event):
    """A standing approval is good for nothing any more."""

    standing: str
    name: str
    method: str | None
    revoked_by: str
    operator: str | None = None
