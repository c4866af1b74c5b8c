"""Asking for a person's yes: a request is bound to the exact thing and put where people see it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from paddock.approvals import consume, store
from paddock.approvals.model import REQUEST_TTL, Approval, ApprovalRequestKind, ApprovalState, ApprovedAction, Binding
from paddock.approvals.store import ApprovalTransaction
from paddock.core.canonical import hash_of
from paddock.core.errors import Busy
from paddock.core.events.approvals import ApprovalRequested
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that needs a person's yes. The fields are those of `Approval` and `Binding`."""

    call: str
    subject: ApprovedAction
    kind: ApprovalRequestKind
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


def create_request(unit: ApprovalTransaction, asked: ApprovalRequest, token: str) -> Approval:
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
        expires_at=(unit.clock.now() + REQUEST_TTL[asked.kind]).isoformat(),
    )
    approval = Approval(
        id=unit.new_id("apr"),
        kind=asked.kind,
        state=ApprovalState.PENDING,
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
    _store_request(unit, approval, token)
    return approval


def replace_request(unit: ApprovalTransaction, approval: Approval, payload: Mapping[str, Any], editor: str) -> Approval:
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
    _store_request(unit, edited, new_token())
    return edited


def _store_request(unit: ApprovalTransaction, approval: Approval, token: str) -> None:
    store.insert_request(unit.tx, approval, token)
    consume.schedule_expiry(unit, approval)
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


@dataclass(frozen=True, slots=True)
class PendingLimits:
    """So many requests that have not ended, and so many bytes of parameters in them.

    One who calls has a small part of their tenant's, so that nobody fills the list that all approvers look at.
    """

    per_principal: int = 100
    per_tenant: int = 1_000
    bytes_per_principal: int = 8 << 20
    bytes_per_tenant: int = 64 << 20


def check_pending_limits(
    tx: Transaction, tenant: str, requester: str, payload: Mapping[str, Any], room: PendingLimits
) -> None:
    """Refuse a request for which there is no room.

    Raises:
        Busy: so much waits already.
    """
    size = len(json.dumps(payload))
    theirs, all_of_them = store.count_open(tx, tenant, requester), store.count_open(tx, tenant)
    for whose, (count, kept), most, most_bytes in (
        (requester, theirs, room.per_principal, room.bytes_per_principal),
        ("your tenant", all_of_them, room.per_tenant, room.bytes_per_tenant),
    ):
        if count >= most:
            raise _limit_error(f"{whose} has {count:,} calls waiting for a person, and that is the limit", most)
        if kept + size > most_bytes:
            raise _limit_error(f"{whose} has no more than {most_bytes:,} bytes of parameters for calls that wait", most)


def _limit_error(message: str, most: int) -> Busy:
    return Busy(
        message,
        code="approval.too_many",
        hint="have some of them answered, or cancel some: paddock approvals list",
        details={"limit_waiting": most},
    )
