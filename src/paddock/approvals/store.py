"""The rows of approval requests. Every function takes part in its caller's transaction.

A state change is one statement that names the previous state, so that of any number of concurrent callers only one
succeeds, on either engine.
"""

# ruff: noqa: S608 - only columns and placeholders of this module are put into SQL; every value is bound

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from paddock.approvals.access import require_open
from paddock.approvals.approval_parties import MAX_SHOWN_PAYLOAD_BYTES, list_visible
from paddock.approvals.model import (
    TRANSITIONS,
    Approval,
    ApprovalAnswer,
    ApprovalRequestKind,
    ApprovalState,
    ApprovedAction,
    Binding,
)
from paddock.approvals.party_rows import delete_parties, end_views, insert_answered, insert_parties
from paddock.core.action import Action
from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.event import EventSink
from paddock.core.ids import Tenant, new_id
from paddock.manifest.effects import risk_of_effects
from paddock.store.database import Transaction

COLUMNS = (
    "id, tenant, kind, state, call, plugin, callable, requester, for_person, binding, binding_hash, token_hash,"
    " payload, context, reason, policy_version, remember, created_at, expires_at, ended_at, ended_why, replaces,"
    " public_reason"
)
COLUMNS_WITHOUT_PAYLOAD = COLUMNS.replace(" payload,", " '{}' AS payload,")
_COLUMNS_WITH_SHORT_PAYLOAD = COLUMNS.replace(
    " payload,", f" CASE WHEN payload_bytes <= {MAX_SHOWN_PAYLOAD_BYTES} THEN payload ELSE '{{}}' END AS payload,"
)

REQUESTS_PAGE_ROWS = 50  # requests with their payloads, which may be large


def insert_request(tx: Transaction, approval: Approval, token: str) -> None:
    """Store a new request. Of the token only the hash is stored."""
    binding, payload = approval.binding, json.dumps(approval.payload)
    tx.execute(
        f"INSERT INTO approvals ({COLUMNS}, payload_bytes, risk)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            approval.id,
            binding.subject.tenant,
            approval.kind.value,
            approval.state.value,
            approval.call,
            binding.subject.plugin,
            binding.subject.callable,
            binding.requester,
            approval.for_person,
            json.dumps(binding.to_json()),
            approval.binding_hash,
            hash_token(token),
            payload,
            json.dumps(approval.context),
            approval.reason,
            approval.policy_version,
            approval.remember,
            approval.created_at,
            binding.expires_at,
            approval.ended_at,
            approval.ended_why,
            approval.replaces,
            approval.public_reason,
            len(payload),
            risk_of_effects(binding.subject.effects).rank,
        ),
    )
    insert_parties(tx, approval)


def find_request(tx: Transaction, tenant: str, approval_id: str) -> Approval:
    """Return one request with its answers.

    Raises:
        NotFound: this tenant has none of that id.
    """
    row = tx.one(
        f"SELECT {COLUMNS} FROM approvals WHERE tenant = ? AND id = ?",
        (tenant, approval_id),
    )
    if row is None:
        raise request_not_found(approval_id)
    return request_from_row(row, load_answers(tx, approval_id))


def request_not_found(approval_id: str) -> NotFound:
    """Build the error for an unknown id, and for one that the principal may not see."""
    return NotFound(
        f"there is no approval request {approval_id!r}", code="approval.not_found", action=Action.of("approval.list")
    )


def list_requests(
    tx: Transaction,
    tenant: str,
    *,
    open_only: bool = False,
    to: Principal | None = None,
    before: str | None = None,
    limit: int,
    short_payloads: bool = False,
) -> list[Approval]:
    """Return a page of a tenant's requests, newest first, optionally only those `before` an id, or visible `to` one.

    Payloads are empty, but for those that are short enough for a list where `short_payloads` are wanted.

    Raises:
        NotFound: this tenant has no request of the id `before`.
    """
    last = None if before is None else find_request(tx, tenant, before)
    place = None if last is None else (last.created_at, last.id)
    columns = _COLUMNS_WITH_SHORT_PAYLOAD if short_payloads else COLUMNS_WITHOUT_PAYLOAD
    if to is not None and OPERATOR not in to.roles:
        ids = list_visible(tx, to, open_only=open_only, before=place, limit=limit)
        if not ids:
            return []
        where, values = f"id IN ({', '.join('?' * len(ids))})", list[str](ids)
        index = ""
    else:
        index = " INDEXED BY approvals_open" if open_only else " INDEXED BY approvals_by_age"
        where, values = "tenant = ?", [tenant]
        if open_only:
            where += " AND ended_at IS NULL"
        if place is not None:
            where += " AND (created_at, id) < (?, ?)"
            values += place
    rows = tx.all(
        f"SELECT {columns} FROM approvals{index} WHERE {where} ORDER BY created_at DESC, id DESC LIMIT ?",
        (*values, limit),
    )
    answers = load_answers_of(tx, [row["id"] for row in rows])
    return [request_from_row(row, answers.get(row["id"], ())) for row in rows]


def count_requests(tx: Transaction, tenant: str, call: str) -> int:
    """Count the requests about a call: each edit made one more."""
    row = tx.one("SELECT COUNT(*) AS many FROM approvals WHERE tenant = ? AND call = ?", (tenant, call))
    return 0 if row is None else int(row["many"])


def latest_for_call(tx: Transaction, tenant: str, call: str) -> Approval | None:
    """Return the latest request about a call, if there is one; an edit creates another."""
    row = tx.one(
        f"SELECT {COLUMNS} FROM approvals WHERE tenant = ? AND call = ? ORDER BY created_at DESC, id DESC LIMIT 1",
        (tenant, call),
    )
    return None if row is None else request_from_row(row, load_answers(tx, row["id"]))


def open_for_call(tx: Transaction, tenant: str, call: str) -> list[Approval]:
    """Return the open requests about a call, without answers."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM approvals WHERE tenant = ? AND call = ? AND ended_at IS NULL",
        (tenant, call),
    )
    return [request_from_row(row, ()) for row in rows]


def list_pending_of(tx: Transaction, tenant: str, requester: str, plugin: str) -> list[Approval]:
    """Return the pending requests of one requester for one plugin, oldest first."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM approvals INDEXED BY approvals_open_of_requester"
        " WHERE tenant = ? AND requester = ? AND ended_at IS NULL AND state = 'pending' AND plugin = ?"
        " ORDER BY created_at, id",
        (tenant, requester, plugin),
    )
    return [request_from_row(row, load_answers(tx, row["id"])) for row in rows]


def list_answered_by(tx: Transaction, tenant: str, standing_id: str) -> list[Approval]:
    """Return the requests that waited when a standing approval was given, and that it answered; oldest first."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM approvals WHERE tenant = ?"
        " AND id IN (SELECT approval FROM approval_answers WHERE standing = ?) ORDER BY created_at, id",
        (tenant, standing_id),
    )
    return [request_from_row(row, load_answers(tx, row["id"])) for row in rows]


def find_replacement(tx: Transaction, approval: Approval) -> str | None:
    """Return the id of the request that replaced this one, if any."""
    row = tx.one(
        "SELECT id FROM approvals WHERE tenant = ? AND call = ? AND replaces = ?",
        (approval.binding.subject.tenant, approval.call, approval.id),
    )
    return None if row is None else row["id"]


def insert_answer(tx: Transaction, approval: Approval, answer: ApprovalAnswer) -> None:
    """Store one person's answer.

    Raises:
        Conflict: they have already answered.
    """
    inserted = tx.execute(
        "INSERT INTO approval_answers (approval, who, approved, at, comment, operator, scope, reach, standing)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (approval, who) DO NOTHING",
        (
            approval.id,
            answer.by,
            answer.approved,
            answer.at,
            answer.comment,
            answer.operator,
            answer.scope,
            answer.reach,
            answer.standing,
        ),
    )
    if not inserted:
        raise Conflict(f"{answer.by} has answered {approval.id} already", code="approval.answered_before")
    insert_answered(tx, approval, answer.by)


def set_state(tx: Transaction, approval: Approval, state: ApprovalState, *, at: str, why: str = "") -> None:
    """Change the state, unless it was changed concurrently.

    Raises:
        Conflict: it was, or the transition is not allowed.
    """
    if state not in TRANSITIONS[approval.state]:
        require_open(approval)
        raise Conflict(f"{approval.id} is {approval.state} and cannot be {state}", code="approval.not_ready")
    ended_at = None if TRANSITIONS[state] else at
    updated = tx.execute(
        "UPDATE approvals SET state = ?, ended_at = ?, ended_why = ? WHERE id = ? AND state = ?",
        (state.value, ended_at, why, approval.id, approval.state.value),
    )
    if not updated:
        require_open(find_request(tx, approval.binding.subject.tenant, approval.id))
        raise Conflict(f"{approval.id} has changed meanwhile", code="approval.changed", hint="reload it and try again")
    delete_parties(tx, [approval.id])  # nobody answers it any more
    if ended_at is not None:
        end_views(tx, [approval])


def token_matches(tx: Transaction, tenant: str, approval_id: str, token: str) -> bool:
    """Return whether this is the requester's token, and it was not redeemed yet."""
    row = tx.one("SELECT token_hash FROM approvals WHERE tenant = ? AND id = ?", (tenant, approval_id))
    return row is not None and hmac.compare_digest(row["token_hash"], hash_token(token))


def spend_token(tx: Transaction, tenant: str, approval_id: str, token: str) -> bool:
    """Redeem a token; return whether this caller did. Of any number of concurrent callers, one succeeds."""
    spent = tx.execute(
        "UPDATE approvals SET token_hash = '' WHERE tenant = ? AND id = ? AND token_hash = ?",
        (tenant, approval_id, hash_token(token)),
    )
    return bool(spent)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def load_answers(tx: Transaction, approval_id: str) -> tuple[ApprovalAnswer, ...]:
    rows = tx.all(
        "SELECT who, approved, at, comment, operator, scope, reach, standing FROM approval_answers"
        " WHERE approval = ? ORDER BY at, who",
        (approval_id,),
    )
    return tuple(ApprovalAnswer(row.pop("who"), bool(row.pop("approved")), **row) for row in rows)


def load_answers_of(tx: Transaction, ids: Sequence[str]) -> dict[str, tuple[ApprovalAnswer, ...]]:
    if not ids:
        return {}
    rows = tx.all(
        "SELECT approval, who, approved, at, comment, operator, scope, reach, standing FROM approval_answers"
        f" WHERE approval IN ({', '.join('?' * len(ids))}) ORDER BY at, who",
        ids,
    )
    answers: dict[str, tuple[ApprovalAnswer, ...]] = {}
    for row in rows:
        approval_id = row.pop("approval")
        answer = ApprovalAnswer(row.pop("who"), bool(row.pop("approved")), **row)
        answers[approval_id] = (*answers.get(approval_id, ()), answer)
    return answers


def load_brief(tx: Transaction, ids: Sequence[str]) -> list[Approval]:
    """Return requests without answers and payloads."""
    if not ids:
        return []
    rows = tx.all(
        f"SELECT {COLUMNS_WITHOUT_PAYLOAD} FROM approvals WHERE id IN ({', '.join('?' * len(ids))})",
        ids,
    )
    return [request_from_row(row, ()) for row in rows]


def request_from_row(row: dict[str, Any], answers: tuple[ApprovalAnswer, ...]) -> Approval:
    return Approval(
        id=row["id"],
        kind=ApprovalRequestKind(row["kind"]),
        state=ApprovalState(row["state"]),
        call=row["call"],
        binding=_binding_from_json(json.loads(row["binding"])),
        binding_hash=row["binding_hash"],
        payload=json.loads(row["payload"]),
        context=json.loads(row["context"]),
        for_person=row["for_person"],
        reason=row["reason"],
        policy_version=row["policy_version"],
        remember=row["remember"],
        created_at=row["created_at"],
        ended_at=row["ended_at"],
        ended_why=row["ended_why"],
        replaces=row["replaces"],
        public_reason=row["public_reason"],
        answers=answers,
    )


def _binding_from_json(document: dict[str, Any]) -> Binding:
    subject: dict[str, Any] = document.pop("subject")
    subject |= {name: tuple(subject[name]) for name in ("effects", "policies")}
    people = {name: tuple(document.pop(name, ())) for name in ("approvers", "editors")}
    return Binding(subject=ApprovedAction(**subject), **people, **document)


TransactionPublisher = Callable[[Transaction, Tenant, str | None], EventSink]
"""Returns the event sink of a transaction for a tenant, and for a call if there is one; the events commit with the
transaction."""


class ApprovalTransaction(Struct, frozen=True):
    """One transaction of one tenant, at one point in time."""

    tx: Transaction
    tenant: Tenant
    now: str
    clock: Clock
    random: Random
    publish_in: TransactionPublisher

    def publish(self, call: str | None = None) -> EventSink:
        """Return the event sink of this transaction; `call` is the call that the events are about."""
        return self.publish_in(self.tx, self.tenant, call)

    def new_id(self, prefix: str) -> str:
        return new_id(prefix, self.clock, self.random)
