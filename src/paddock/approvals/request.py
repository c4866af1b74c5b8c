"""Creates approval requests, bound to the exact action, within the limits on pending requests."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from paddock.approvals import open_requests, store
from paddock.approvals.model import REQUEST_TTL, Approval, ApprovalRequestKind, ApprovalState, ApprovedAction, Binding
from paddock.approvals.store import ApprovalTransaction
from paddock.core.action import Action
from paddock.core.canonical import hash_of
from paddock.core.errors import Busy
from paddock.core.events.approvals import ApprovalRequested
from paddock.store.database import Transaction


class ApprovalRequest(Struct, frozen=True):
    """A call that needs approval. The fields are those of `Approval` and `Binding`."""

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
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(32)


def create_request(unit: ApprovalTransaction, request: ApprovalRequest, token: str) -> Approval:
    """Store a new request with the hash of a token that the requester is given."""
    binding = Binding(
        subject=request.subject,
        kind=request.kind.value,
        payload_hash=hash_of(request.payload),
        requester=request.requester,
        approvers=request.approvers,
        quorum=request.quorum,
        four_eyes=request.four_eyes,
        nonce=secrets.token_hex(16),
        expires_at=(unit.clock.now() + REQUEST_TTL[request.kind]).isoformat(),
    )
    approval = Approval(
        id=unit.new_id("apr"),
        kind=request.kind,
        state=ApprovalState.PENDING,
        call=request.call,
        binding=binding,
        binding_hash=binding.hash(),
        payload=request.payload,
        context=request.context,
        for_person=request.for_person,
        reason=request.reason,
        public_reason=request.public_reason,
        policy_version=request.policy_version,
        remember=request.remember,
        created_at=unit.now,
    )
    _store_request(unit, approval, token)
    return approval


def replace_request(unit: ApprovalTransaction, approval: Approval, payload: Mapping[str, Any], editor: str) -> Approval:
    """Create the request that replaces this one with an edited payload. Earlier answers do not carry over.

    If four eyes are required, the editor counts as a requester too.
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
    # The requester's token is for the old request and payload; nobody gets the new one.
    _store_request(unit, edited, new_token())
    return edited


def _store_request(unit: ApprovalTransaction, approval: Approval, token: str) -> None:
    store.insert_request(unit.tx, approval, token)
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


class PendingLimits(Struct, frozen=True):
    """Limits on the open requests of one principal, and on the bytes of their parameters.

    They protect people, not the store: one agent in a loop must not bury what others ask. A tenant has no limit.
    """

    per_principal: int = 100
    bytes_per_principal: int = 8 << 20


def check_pending_limits(
    tx: Transaction, tenant: str, requester: str, payload: Mapping[str, Any], limits: PendingLimits
) -> None:
    """Reject a request that exceeds the limits.

    Raises:
        Busy: too much is pending already.
    """
    size = len(json.dumps(payload))
    count, stored_bytes = open_requests.count_open(tx, tenant, requester, limits.per_principal)
    if count >= limits.per_principal:
        message = f"{requester} has {count:,} calls waiting for a person, and that is the limit"
        raise _limit_error(message, limits.per_principal)
    if stored_bytes + size > limits.bytes_per_principal:
        message = f"{requester} has no more than {limits.bytes_per_principal:,} bytes of parameters for calls that wait"
        raise _limit_error(message, limits.per_principal)


def _limit_error(message: str, max_count: int) -> Busy:
    return Busy(
        message,
        code="approval.too_many",
        hint="answer or cancel some of them first",
        action=Action.of("approval.list"),
        details={"limit_waiting": max_count},
    )
