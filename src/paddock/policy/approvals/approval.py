"""One request for a person's yes: its kinds, its states and the way between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from paddock.policy.approvals.binding import Binding

Scope: TypeAlias = Literal["once", "session", "always"]
"""For which calls a yes is good."""
Reach: TypeAlias = Literal["tool", "plugin"]
"""For how much of a plugin."""


class Kind(StrEnum):
    """Why a person is asked, which decides who may answer and for how long the question stands."""

    CONFIRMATION = "confirmation"  # "did you mean this?", asked of the person the call is for
    CONSENT = "consent"  # "may this be done with what is yours?", asked of the same person
    ACTION = "action"  # a change in the world, asked of somebody who may allow it
    GATE = "gate"  # a step of a plan that waits for somebody


LASTS: Mapping[Kind, timedelta] = MappingProxyType(
    {
        Kind.CONFIRMATION: timedelta(minutes=15),
        Kind.CONSENT: timedelta(minutes=15),
        Kind.ACTION: timedelta(minutes=15),
        Kind.GATE: timedelta(days=7),
    }
)


class State(StrEnum):
    """How far a request got. From `pending` and `approved` it can go on; the others are ends."""

    PENDING = "pending"
    APPROVED = "approved"
    CONSUMED = "consumed"
    DENIED = "denied"
    EXPIRED = "expired"
    VOIDED = "voided"
    WITHDRAWN = "withdrawn"


TRANSITIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.PENDING: frozenset({State.APPROVED, State.DENIED, State.EXPIRED, State.VOIDED, State.WITHDRAWN}),
        State.APPROVED: frozenset({State.CONSUMED, State.EXPIRED, State.VOIDED, State.WITHDRAWN}),
        State.CONSUMED: frozenset(),
        State.DENIED: frozenset(),
        State.EXPIRED: frozenset(),
        State.VOIDED: frozenset(),
        State.WITHDRAWN: frozenset(),
    }
)
OPEN = frozenset(state for state, following in TRANSITIONS.items() if following)


@dataclass(frozen=True, slots=True)
class Given:
    """One person's answer.

    Attributes:
        operator: Who passed it on, where they did not give it themselves.
        scope, reach: How far they wanted a yes to last; see `Remember`.
    """

    by: str
    approved: bool
    at: str
    comment: str = ""
    operator: str | None = None
    scope: Scope = "once"
    reach: Reach = "tool"


@dataclass(frozen=True, slots=True)
class Approval:
    """A request for a person's yes, as it is kept.

    Attributes:
        payload: The parameters that the call is to be made with, exactly.
        context: The surroundings of the call that waits, for making it later.
        for_person: Whom the call is for; empty where that is nobody.
        reason: Why somebody is asked, in words, for whoever answers.
        public_reason: For whoever asks, where a rule keeps its text from them; empty: the reason itself.
        remember: How far a yes may be remembered: `never`, `tool` or `plugin`.
        ended_why: Why it is neither used nor open any more, in words.
        replaces: The request that this one came out of, with another payload.
    """

    id: str
    kind: Kind
    state: State
    call: str
    binding: Binding
    binding_hash: str
    payload: Mapping[str, Any]
    context: Mapping[str, Any]
    for_person: str
    reason: str
    policy_version: str
    remember: str
    created_at: str
    ended_at: str | None = None
    ended_why: str = ""
    replaces: str | None = None
    answers: tuple[Given, ...] = ()
    public_reason: str = ""

    @property
    def told(self) -> str:
        """Why somebody is asked, for whoever asks."""
        return self.public_reason or self.reason

    @property
    def still_needed(self) -> int:
        """How many more people have to say yes."""
        return max(0, self.binding.quorum - sum(answer.approved for answer in self.answers))

    @property
    def askers(self) -> frozenset[str]:
        """Everybody who asks for it: in whose name the call is made, who typed it, and who changed what it says."""
        typed_by = self.context.get("operator")
        own = (self.binding.requester, self.for_person, *self.binding.editors)
        return frozenset((*own, f"local:{typed_by}") if typed_by else own)
