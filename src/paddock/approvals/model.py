"""The model of an approval request: kinds, states, transitions and the binding. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct, to_builtins

from paddock.core.canonical import canonical_bytes

_HASH_DOMAIN = b"paddock.approval.v1\0"


class ApprovedAction(Struct, frozen=True):
    """The action to approve, apart from requester and parameters: what a standing approval is about.

    Attributes:
        digest: The digest of the plugin's files.
        definition: The hash of the callable's definition: its name, schemas, effects, texts.
        effects: Its declared effects.
        policies: The rules that require the approval, each as `id@hash of its text`.
    """

    tenant: str
    plugin: str
    callable: str
    digest: str
    definition: str
    effects: tuple[str, ...]
    policies: tuple[str, ...]


class Binding(Struct, frozen=True):
    """The binding of an approval: this action with this payload, by this requester, until then, approved by these.

    Attributes:
        nonce: Distinguishes two requests for the same action.
        approvers: `role:approver`, `group:editors` or a person's id; any principal that matches one may answer.
        editors: The people who edited the parameters of the request that this one replaced, if four eyes are required:
            they count as requesters too.
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
        """Return `sha256:<hex>` over all fields."""
        return "sha256:" + hashlib.sha256(_HASH_DOMAIN + canonical_bytes(self.to_json())).hexdigest()

    def to_json(self) -> dict[str, object]:
        return to_builtins(self)


ApprovalScope: TypeAlias = Literal["once", "session", "always"]
"""For which calls an approval holds."""
ApprovalReach: TypeAlias = Literal["tool", "plugin"]
"""For how much of a plugin it holds."""


class ApprovalRequestKind(StrEnum):
    """Why a person is asked, which determines who may answer and when the request expires."""

    CONFIRMATION = "confirmation"  # "did you mean this?", asked of the person the call is for
    CONSENT = "consent"  # "may this use your data?", asked of the person the call is for
    ACTION = "action"  # an effect, asked of somebody who may approve it
    GATE = "gate"  # a step of a plan that waits for approval


REQUEST_TTL: Mapping[ApprovalRequestKind, timedelta] = MappingProxyType(
    {
        ApprovalRequestKind.CONFIRMATION: timedelta(minutes=15),
        ApprovalRequestKind.CONSENT: timedelta(minutes=15),
        ApprovalRequestKind.ACTION: timedelta(minutes=15),
        ApprovalRequestKind.GATE: timedelta(days=7),
    }
)


class ApprovalState(StrEnum):
    """The state of a request. `pending` and `approved` are open; all others are final."""

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


class ApprovalAnswer(Struct, frozen=True):
    """One person's answer.

    Attributes:
        operator: The operator who passed it on, if the person did not answer in person.
        scope, reach: How far they want an approval to be remembered; see `RememberChoice`.
        standing: The standing approval that answered it, if the request waited when that was given.
    """

    by: str
    approved: bool
    at: str
    comment: str = ""
    operator: str | None = None
    scope: ApprovalScope = "once"
    reach: ApprovalReach = "tool"
    standing: str | None = None


class Approval(Struct, frozen=True):
    """A stored approval request.

    Attributes:
        payload: The exact parameters of the call.
        context: The context of the pending call, to make it later.
        for_person: The person the call is for; empty if there is none.
        reason: Why approval is required, for approvers.
        public_reason: The reason for the requester, if a rule withholds its text from them; empty: the reason itself.
        remember: How far the rules let a confirmation be remembered; see `remember_limit`.
        ended_why: Why it ended without being used.
        replaces: The request that this one replaced, with an edited payload.
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
        """Why approval is required, for the requester."""
        return self.public_reason or self.reason

    @property
    def answerable_by(self) -> tuple[str, ...]:
        """Who can answer: the person the call is for, or any principal that matches one of the approvers."""
        personal = self.kind in (ApprovalRequestKind.CONFIRMATION, ApprovalRequestKind.CONSENT)
        return (self.for_person,) if personal else self.binding.approvers

    @property
    def remember_limit(self) -> str:
        """How far an approval may be remembered: `never`, `tool` or `plugin`. Only a confirmation outlasts its call."""
        return self.remember if self.kind is ApprovalRequestKind.CONFIRMATION else "never"

    @property
    def still_needed(self) -> int:
        """How many more people have to approve."""
        return max(0, self.binding.quorum - sum(answer.approved for answer in self.answers))

    @property
    def requesters(self) -> frozenset[str]:
        """Everybody who counts as a requester: the call's principal, who typed it, and who edited its parameters."""
        typed_by = self.context.get("operator")
        own = (self.binding.requester, self.for_person, *self.binding.editors)
        return frozenset((*own, f"local:{typed_by}") if typed_by else own)
