"""One request for a person's yes: its kinds, its states and the way between them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from paddock.core.canonical import canonical_bytes

_HASH_DOMAIN = b"paddock.approval.v1\0"


@dataclass(frozen=True, slots=True)
class ApprovedAction:
    """What is to be done, apart from who asks and with what: all that a standing approval is about.

    Attributes:
        digest: Of the plugin's files.
        definition: The hash of how the callable describes itself: its name, schemas, effects, texts.
        effects: What it may do to the world.
        policies: The rules that want a person asked, each as `id@hash of its text`.
    """

    tenant: str
    plugin: str
    callable: str
    digest: str
    definition: str
    effects: tuple[str, ...]
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """The exact thing: this payload, asked for by this requester, until then, to be answered by so many of these.

    Attributes:
        nonce: Makes two requests for the same thing two different things.
        approvers: `role:approver`, `group:editors` or a person's id; whoever has or is one of them may answer.
        editors: Who changed the parameters of the request that this one took the place of, where four eyes hold: they
            ask for it too.
    """

    subject: ApprovedAction
    kind: str
    payload_hash: str
    requester: str
    approvers: tuple[str, ...]
    quorum: int
    four_eyes: bool
    nonce: str
    expires_at: str
    editors: tuple[str, ...] = ()

    def hash(self) -> str:
        """`sha256:<hex>` over all of it."""
        return "sha256:" + hashlib.sha256(_HASH_DOMAIN + canonical_bytes(self.to_json())).hexdigest()

    def to_json(self) -> dict[str, object]:
        return asdict(self)


ApprovalScope: TypeAlias = Literal["once", "session", "always"]
"""For which calls a yes is good."""
ApprovalReach: TypeAlias = Literal["tool", "plugin"]
"""For how much of a plugin."""


class ApprovalRequestKind(StrEnum):
    """Why a person is asked, which decides who may answer and for how long the question stands."""

    CONFIRMATION = "confirmation"  # "did you mean this?", asked of the person the call is for
    CONSENT = "consent"  # "may this be done with what is yours?", asked of the same person
    ACTION = "action"  # a change in the world, asked of somebody who may allow it
    GATE = "gate"  # a step of a plan that waits for somebody


REQUEST_TTL: Mapping[ApprovalRequestKind, timedelta] = MappingProxyType(
    {
        ApprovalRequestKind.CONFIRMATION: timedelta(minutes=15),
        ApprovalRequestKind.CONSENT: timedelta(minutes=15),
        ApprovalRequestKind.ACTION: timedelta(minutes=15),
        ApprovalRequestKind.GATE: timedelta(days=7),
    }
)


class ApprovalState(StrEnum):
    """How far a request got. From `pending` and `approved` it can go on; the others are ends."""

    PENDING = "pending"
    APPROVED = "approved"
    CONSUMED = "consumed"
    DENIED = "denied"
    EXPIRED = "expired"
    VOIDED = "voided"
    WITHDRAWN = "withdrawn"


TRANSITIONS: Mapping[ApprovalState, frozenset[ApprovalState]] = MappingProxyType(
    {
        ApprovalState.PENDING: frozenset(
            {
                ApprovalState.APPROVED,
                ApprovalState.DENIED,
                ApprovalState.EXPIRED,
                ApprovalState.VOIDED,
                ApprovalState.WITHDRAWN,
            }
        ),
        ApprovalState.APPROVED: frozenset(
            {ApprovalState.CONSUMED, ApprovalState.EXPIRED, ApprovalState.VOIDED, ApprovalState.WITHDRAWN}
        ),
        ApprovalState.CONSUMED: frozenset(),
        ApprovalState.DENIED: frozenset(),
        ApprovalState.EXPIRED: frozenset(),
        ApprovalState.VOIDED: frozenset(),
        ApprovalState.WITHDRAWN: frozenset(),
    }
)
OPEN_STATES = frozenset(state for state, following in TRANSITIONS.items() if following)


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
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
    scope: ApprovalScope = "once"
    reach: ApprovalReach = "tool"


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
    kind: ApprovalRequestKind
    state: ApprovalState
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
    answers: tuple[ApprovalAnswer, ...] = ()
    public_reason: str = ""

    @property
    def caller_reason(self) -> str:
        """Why somebody is asked, for whoever asks."""
        return self.public_reason or self.reason

    @property
    def still_needed(self) -> int:
        """How many more people have to say yes."""
        return max(0, self.binding.quorum - sum(answer.approved for answer in self.answers))

    @property
    def requesters(self) -> frozenset[str]:
        """Everybody who asks for it: in whose name the call is made, who typed it, and who changed what it says."""
        typed_by = self.context.get("operator")
        own = (self.binding.requester, self.for_person, *self.binding.editors)
        return frozenset((*own, f"local:{typed_by}") if typed_by else own)
