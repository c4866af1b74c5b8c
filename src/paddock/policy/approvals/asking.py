"""Asking for a person's yes: a request is bound to the exact thing and put where people see it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from paddock.core.canonical import hash_of
from paddock.core.events_approvals import ApprovalRequested
from paddock.policy.approvals import expiring, rows
from paddock.policy.approvals.approval import LASTS, Approval, Kind, State
from paddock.policy.approvals.binding import Binding, Subject
from paddock.policy.approvals.unit import Unit


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that needs a person's yes. The fields are those of `Approval` and `Binding`."""

    call: str
    subject: Subject
    kind: Kind
    payload: Mapping[str, Any]
    context: Mapping[str, Any]
    requester: str
    for_person: str
    approvers: tuple[str, ...]
    quorum: int
    four_eyes: bool
    reason: str
    policy_version: str
    remember: str
    public_reason: str = ""


def new_token() -> str:
    """256 bits that nobody guesses."""
    return secrets.token_urlsafe(32)


def ask(unit: Unit, asked: Asked, token: str) -> Approval:
    """Keep a new request, under a token that whoever asked is given."""
    binding = Binding(
        subject=asked.subject,
        kind=asked.kind.value,
        payload_hash=hash_of(asked.payload),
        requester=asked.requester,
        approvers=asked.approvers,
        quorum=asked.quorum,
        four_eyes=asked.four_eyes,
        nonce=secrets.token_hex(16),
        expires_at=(unit.clock.now() + LASTS[asked.kind]).isoformat(),
    )
    approval = Approval(
        id=unit.new_id("apr"),
        kind=asked.kind,
        state=State.PENDING,
        call=asked.call,
        binding=binding,
        binding_hash=binding.hash(),
        payload=asked.payload,
        context=asked.context,
        for_person=asked.for_person,
        reason=asked.reason,
        public_reason=asked.public_reason,
        policy_version=asked.policy_version,
        remember=asked.remember,
        created_at=unit.now,
    )
    _keep(unit, approval, token)
    return approval


def ask_again(unit: Unit, approval: Approval, payload: Mapping[str, Any], editor: str) -> Approval:
    """The request that takes this one's place, about another payload. What others said was about the old one.

    Where four eyes hold, whoever changed the payload asks for it too.
    """
    binding = replace(approval.binding, payload_hash=hash_of(payload), nonce=secrets.token_hex(16))
    if binding.four_eyes and editor not in binding.editors:
        binding = replace(binding, editors=(*binding.editors, editor))
    edited = replace(
        approval,
        id=unit.new_id("apr"),
        binding=binding,
        binding_hash=binding.hash(),
        payload=payload,
        created_at=unit.now,
        replaces=approval.id,
        answers=(),
    )
    # Whoever asked holds the token of the old request, which is for the old payload and good for nothing any more.
    _keep(unit, edited, new_token())
    return edited


def _keep(unit: Unit, approval: Approval, token: str) -> None:
    rows.keep(unit.tx, approval, token)
    expiring.set_time(unit, approval)
    subject = approval.binding.subject
    unit.publish(approval.call).publish(
        ApprovalRequested(
            approval=approval.id,
            kind=approval.kind.value,
            name=subject.plugin,
            method=subject.callable,
            binding=approval.binding_hash,
            policies=subject.policies,
            requester=approval.binding.requester,
            expires_at=approval.binding.expires_at,
        )
    )
