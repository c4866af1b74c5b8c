"""The rows of approval requests. Every function takes part in its caller's transaction.

A state change is one statement that names the previous state, so that of any number of concurrent callers only one
succeeds, on either engine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from paddock.approvals.access import require_open
from paddock.approvals.approval_parties import MAX_SHOWN_PAYLOAD_BYTES, delete_parties, insert_parties
from paddock.approvals.model import (
    TRANSITIONS,
    Approval,
    ApprovalAnswer,
    ApprovalRequestKind,
    ApprovalState,
    ApprovedAction,
    Binding,
)
from paddock.core.action import Action
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.event import EventSink
from paddock.core.ids import Tenant, new_id
from paddock.manifest.effects import risk_of_effects
from paddock.queue import queue
from paddock.store.database import Transaction

_COLUMNS = (
    "id, tenant, kind, state, call, plugin, callable, requester, for_person, binding, binding_hash, token_hash,"
    " payload, context, reason, policy_version, remember, created_at, expires_at, ended_at, ended_why, replaces,"
    " public_reason"
)
_COLUMNS_WITHOUT_PAYLOAD = _COLUMNS.replace(" payload,", " '{}' AS payload,")
_COLUMNS_WITH_SHORT_PAYLOAD = _COLUMNS.replace(
    " payload,", f" CASE WHEN payload_bytes <= {MAX_SHOWN_PAYLOAD_BYTES} THEN payload ELSE '{{}}' END AS payload,"
)
_OPEN = (ApprovalState.PENDING.value, ApprovalState.APPROVED.value)

EXPIRE_JOB = "approval.expire"  # the type of the job that expires a request; see `consume.py`
REQUESTS_PAGE_ROWS = 50  # requests with their payloads, which may be large


def insert_request(tx: Transaction, approval: Approval, token: str) -> None:
    """Store a new request. Of the token only the hash is stored."""
    binding, payload = approval.binding, json.dumps(approval.payload)
    tx.execute(
        f"INSERT INTO approvals ({_COLUMNS}, payload_bytes, risk)"  # noqa: S608  # column names are ours
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
        f"SELECT {_COLUMNS} FROM approvals WHERE tenant = ? AND id = ?",  # noqa: S608
        (tenant, approval_id),
    )
    if row is None:
        raise request_not_found(approval_id)
    return _request_from_row(row, _load_answers(tx, approval_id))


def request_not_found(approval_id: str) -> NotFound:
    """Build the error for an unknown id, and for one that the principal may not see."""
    return NotFound(
        f"there is no approval request {approval_id!r}", code="approval.not_found", action=Action.of("approval.list")
    )


def list_requests(
    tx: Transaction,
    tenant: str,
    states: tuple[ApprovalState, ...] = (),
    *,
    before: str | None = None,
    limit: int,
    short_payloads: bool = False,
) -> list[Approval]:
    """Return a page of a tenant's requests, newest first, optionally only those `before` an id.

    Payloads are empty, but for those that are short enough for a list where `short_payloads` are wanted.

    Raises:
        NotFound: this tenant has no request of the id `before`.
    """
    where, values = "tenant = ?", [tenant]
    if states:
        where += f" AND state IN ({', '.join('?' * len(states))})"
        values += [state.value for state in states]
    if before is not None:
        last = find_request(tx, tenant, before)
        where += " AND (created_at, id) < (?, ?)"
        values += [last.created_at, last.id]
    columns = _COLUMNS_WITH_SHORT_PAYLOAD if short_payloads else _COLUMNS_WITHOUT_PAYLOAD
    rows = tx.all(
        f"SELECT {columns} FROM approvals WHERE {where} ORDER BY created_at DESC, id DESC LIMIT ?",  # noqa: S608
        (*values, limit),
    )
    return [_request_from_row(row, _load_answers(tx, row["id"])) for row in rows]


def list_open_after(tx: Transaction, after: str, plugin: str | None = None) -> list[Approval]:
    """Return the next open requests of all tenants, by id; of one plugin, or of all."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approvals"  # noqa: S608
        " WHERE state IN (?, ?) AND id > ? AND (? = '' OR plugin = ?) ORDER BY id LIMIT ?",
        (*_OPEN, after, plugin or "", plugin or "", REQUESTS_PAGE_ROWS),
    )
    return [_request_from_row(row, _load_answers(tx, row["id"])) for row in rows]


def count_open(tx: Transaction, tenant: str, requester: str = "") -> tuple[int, int]:
    """Count the open requests and the bytes of their payloads: of a tenant, or of one requester in it."""
    row = tx.one(
        "SELECT COUNT(*) AS many, COALESCE(SUM(payload_bytes), 0) AS bytes FROM approvals"
        " WHERE tenant = ? AND state IN (?, ?) AND (? = '' OR requester = ?)",
        (tenant, *_OPEN, requester, requester),
    )
    return (0, 0) if row is None else (int(row["many"]), int(row["bytes"]))


def list_open(tx: Transaction, tenant: str) -> list[Approval]:
    """Return every open request of a tenant, without answers."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approvals WHERE tenant = ? AND state IN (?, ?) ORDER BY created_at, id",  # noqa: S608
        (tenant, *_OPEN),
    )
    return [_request_from_row(row, ()) for row in rows]


def waiting_calls(tx: Transaction) -> dict[str, ApprovalState]:
    """Return the calls of all tenants that have an open request, with its state."""
    rows = tx.all("SELECT call, state FROM approvals WHERE state IN (?, ?)", _OPEN)
    return {row["call"]: ApprovalState(row["state"]) for row in rows}


def latest_for_call(tx: Transaction, tenant: str, call: str) -> Approval | None:
    """Return the latest request about a call, if there is one; an edit creates another."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM approvals WHERE tenant = ? AND call = ? ORDER BY created_at DESC, id DESC LIMIT 1",  # noqa: S608
        (tenant, call),
    )
    return None if row is None else _request_from_row(row, _load_answers(tx, row["id"]))


def open_for_call(tx: Transaction, tenant: str, call: str) -> list[Approval]:
    """Return the open requests about a call, without answers."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approvals WHERE tenant = ? AND call = ? AND state IN (?, ?)",  # noqa: S608
        (tenant, call, *_OPEN),
    )
    return [_request_from_row(row, ()) for row in rows]


def list_pending_of(tx: Transaction, tenant: str, requester: str, plugin: str) -> list[Approval]:
    """Return the pending requests of one requester for one plugin, oldest first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approvals"  # noqa: S608
        " WHERE tenant = ? AND state = ? AND requester = ? AND plugin = ? ORDER BY created_at, id",
        (tenant, ApprovalState.PENDING.value, requester, plugin),
    )
    return [_request_from_row(row, _load_answers(tx, row["id"])) for row in rows]


def list_answered_by(tx: Transaction, tenant: str, standing_id: str) -> list[Approval]:
    """Return the requests that waited when a standing approval was given, and that it answered; oldest first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approvals WHERE tenant = ?"  # noqa: S608
        " AND id IN (SELECT approval FROM approval_answers WHERE standing = ?) ORDER BY created_at, id",
        (tenant, standing_id),
    )
    return [_request_from_row(row, _load_answers(tx, row["id"])) for row in rows]


def find_replacement(tx: Transaction, approval: Approval) -> str | None:
    """Return the id of the request that replaced this one, if any."""
    row = tx.one(
        "SELECT id FROM approvals WHERE tenant = ? AND call = ? AND replaces = ?",
        (approval.binding.subject.tenant, approval.call, approval.id),
    )
    return None if row is None else row["id"]


def insert_answer(tx: Transaction, approval_id: str, answer: ApprovalAnswer) -> None:
    """Store one person's answer.

    Raises:
        Conflict: they have already answered.
    """
    inserted = tx.execute(
        "INSERT INTO approval_answers (approval, who, approved, at, comment, operator, scope, reach, standing)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (approval, who) DO NOTHING",
        (
            approval_id,
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
        raise Conflict(f"{answer.by} has answered {approval_id} already", code="approval.answered_before")


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
    if ended_at is not None:
        delete_parties(tx, approval.id)
        queue.remove(tx, approval.binding.subject.tenant, EXPIRE_JOB, approval.id)


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


def list_overdue(tx: Transaction, now: str) -> list[Approval]:
    """Return the first open requests that are overdue."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approvals WHERE state IN (?, ?) AND expires_at <= ?"  # noqa: S608
        " ORDER BY expires_at, id LIMIT ?",
        (*_OPEN, now, REQUESTS_PAGE_ROWS),
    )
    return [_request_from_row(row, ()) for row in rows]


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _load_answers(tx: Transaction, approval_id: str) -> tuple[ApprovalAnswer, ...]:
    rows = tx.all(
        "SELECT who, approved, at, comment, operator, scope, reach, standing FROM approval_answers"
        " WHERE approval = ? ORDER BY at, who",
        (approval_id,),
    )
    return tuple(ApprovalAnswer(row.pop("who"), bool(row.pop("approved")), **row) for row in rows)


def _request_from_row(row: dict[str, Any], answers: tuple[ApprovalAnswer, ...]) -> Approval:
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
