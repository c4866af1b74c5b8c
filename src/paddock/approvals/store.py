"""The rows behind requests for a person's yes. Every function is part of its caller's unit of work.

A state is changed by one statement that names the state it is changed from, so of any number of callers at once only
one succeeds, on either engine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paddock.approvals.access import require_open
from paddock.approvals.model import (
    TRANSITIONS,
    Approval,
    ApprovalAnswer,
    ApprovalRequestKind,
    ApprovalState,
    ApprovedAction,
    Binding,
)
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.event import EventSink
from paddock.core.ids import Tenant, new_id
from paddock.queue import queue
from paddock.store.database import Transaction

_COLUMNS = (
    "id, tenant, kind, state, call, plugin, callable, requester, for_person, binding, binding_hash, token_hash,"
    " payload, context, reason, policy_version, remember, created_at, expires_at, ended_at, ended_why, replaces,"
    " public_reason"
)
_COLUMNS_WITHOUT_PAYLOAD = _COLUMNS.replace(" payload,", " '{}' AS payload,")
_OPEN = (ApprovalState.PENDING.value, ApprovalState.APPROVED.value)

EXPIRE_JOB = "approval.expire"  # the kind of work that ends a request on time; see `expiring.py`
PAGE_ROWS = 50  # requests with all that they are about, which may be large


def insert_request(tx: Transaction, approval: Approval, token: str) -> None:
    """Keep a new request. The token is kept as its hash only."""
    binding, payload = approval.binding, json.dumps(approval.payload)
    tx.execute(
        f"INSERT INTO approvals ({_COLUMNS}, payload_bytes)"  # noqa: S608  # column names are ours
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        ),
    )


def find_request(tx: Transaction, tenant: str, approval_id: str) -> Approval:
    """One request with its answers.

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
    """What is said of an id that no request has, and of one that whoever asks may not know of."""
    return NotFound(
        f"there is no request {approval_id!r}", code="approval.not_found", hint="see: paddock approvals list --all"
    )


def list_requests(
    tx: Transaction, tenant: str, states: tuple[ApprovalState, ...] = (), *, before: str | None = None, limit: int
) -> list[Approval]:
    """Some requests of a tenant without their payloads, newest first: from the newest, or from the one before that.

    Raises:
        NotFound: this tenant has none of the id that they are to come before.
    """
    where, values = "tenant = ?", [tenant]
    if states:
        where += f" AND state IN ({', '.join('?' * len(states))})"
        values += [state.value for state in states]
    if before is not None:
        last = find_request(tx, tenant, before)
        where += " AND (created_at, id) < (?, ?)"
        values += [last.created_at, last.id]
    found = tx.all(
        f"SELECT {_COLUMNS_WITHOUT_PAYLOAD} FROM approvals WHERE {where} ORDER BY created_at DESC, id DESC LIMIT ?",  # noqa: S608
        (*values, limit),
    )
    return [_request_from_row(row, _load_answers(tx, row["id"])) for row in found]


def list_open_after(tx: Transaction, after: str, plugin: str | None = None) -> list[Approval]:
    """The next open requests of all tenants, by their ids; of one plugin, or of all."""
    found = tx.all(
        f"SELECT {_COLUMNS} FROM approvals"  # noqa: S608
        " WHERE state IN (?, ?) AND id > ? AND (? = '' OR plugin = ?) ORDER BY id LIMIT ?",
        (*_OPEN, after, plugin or "", plugin or "", PAGE_ROWS),
    )
    return [_request_from_row(row, _load_answers(tx, row["id"])) for row in found]


def count_open(tx: Transaction, tenant: str, requester: str = "") -> tuple[int, int]:
    """How many requests are open, and how many bytes their payloads have: of a tenant, or of one who asks there."""
    row = tx.one(
        "SELECT COUNT(*) AS many, COALESCE(SUM(payload_bytes), 0) AS bytes FROM approvals"
        " WHERE tenant = ? AND state IN (?, ?) AND (? = '' OR requester = ?)",
        (tenant, *_OPEN, requester, requester),
    )
    return (0, 0) if row is None else (int(row["many"]), int(row["bytes"]))


def list_open(tx: Transaction, tenant: str) -> list[Approval]:
    """Every request of a tenant that has not ended, without its answers."""
    found = tx.all(
        f"SELECT {_COLUMNS} FROM approvals WHERE tenant = ? AND state IN (?, ?) ORDER BY created_at, id",  # noqa: S608
        (tenant, ApprovalState.PENDING.value, ApprovalState.APPROVED.value),
    )
    return [_request_from_row(row, ()) for row in found]


def waiting_calls(tx: Transaction) -> dict[str, ApprovalState]:
    """The calls of all tenants that an open request is about, and how far that is."""
    open_ones = (ApprovalState.PENDING.value, ApprovalState.APPROVED.value)
    found = tx.all("SELECT call, state FROM approvals WHERE state IN (?, ?)", open_ones)
    return {row["call"]: ApprovalState(row["state"]) for row in found}


def latest_for_call(tx: Transaction, tenant: str, call: str) -> Approval | None:
    """The last request that was made about a call, where there is one; an edited one makes another."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM approvals WHERE tenant = ? AND call = ? ORDER BY created_at DESC, id DESC LIMIT 1",  # noqa: S608
        (tenant, call),
    )
    return None if row is None else _request_from_row(row, _load_answers(tx, row["id"]))


def open_for_call(tx: Transaction, tenant: str, call: str) -> list[Approval]:
    """The requests about a call that have not ended, without their answers."""
    found = tx.all(
        f"SELECT {_COLUMNS} FROM approvals WHERE tenant = ? AND call = ? AND state IN (?, ?)",  # noqa: S608
        (tenant, call, ApprovalState.PENDING.value, ApprovalState.APPROVED.value),
    )
    return [_request_from_row(row, ()) for row in found]


def find_replacement(tx: Transaction, approval: Approval) -> str | None:
    """The id of the request that took this one's place, where one did."""
    row = tx.one(
        "SELECT id FROM approvals WHERE tenant = ? AND call = ? AND replaces = ?",
        (approval.binding.subject.tenant, approval.call, approval.id),
    )
    return None if row is None else row["id"]


def insert_answer(tx: Transaction, approval_id: str, answer: ApprovalAnswer) -> None:
    """Keep one person's answer.

    Raises:
        Conflict: they answered before.
    """
    kept = tx.execute(
        "INSERT INTO approval_answers (approval, who, approved, at, comment, operator, scope, reach)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (approval, who) DO NOTHING",
        (
            approval_id,
            answer.by,
            answer.approved,
            answer.at,
            answer.comment,
            answer.operator,
            answer.scope,
            answer.reach,
        ),
    )
    if not kept:
        raise Conflict(f"{answer.by} has answered {approval_id} already", code="approval.answered_before")


def set_state(tx: Transaction, approval: Approval, state: ApprovalState, *, at: str, why: str = "") -> None:
    """Change the state, if nobody else did meanwhile.

    Raises:
        Conflict: somebody did, or there is no way from the one to the other.
    """
    if state not in TRANSITIONS[approval.state]:
        require_open(approval)
        raise Conflict(f"{approval.id} is {approval.state} and cannot be {state}", code="approval.not_ready")
    ended = None if TRANSITIONS[state] else at
    moved = tx.execute(
        "UPDATE approvals SET state = ?, ended_at = ?, ended_why = ? WHERE id = ? AND state = ?",
        (state.value, ended, why, approval.id, approval.state.value),
    )
    if not moved:
        require_open(find_request(tx, approval.binding.subject.tenant, approval.id))
        raise Conflict(f"{approval.id} has changed meanwhile", code="approval.changed", hint="look at it again")
    if ended is not None:
        queue.remove(tx, approval.binding.subject.tenant, EXPIRE_JOB, approval.id)


def token_matches(tx: Transaction, tenant: str, approval_id: str, token: str) -> bool:
    """Whether this is the token that whoever asked was given, and it was not used yet."""
    row = tx.one("SELECT token_hash FROM approvals WHERE tenant = ? AND id = ?", (tenant, approval_id))
    return row is not None and hmac.compare_digest(row["token_hash"], hash_token(token))


def spend_token(tx: Transaction, tenant: str, approval_id: str, token: str) -> bool:
    """Use a token up. Of any number who try at once, one succeeds; whether that is this one."""
    spent = tx.execute(
        "UPDATE approvals SET token_hash = '' WHERE tenant = ? AND id = ? AND token_hash = ?",
        (tenant, approval_id, hash_token(token)),
    )
    return bool(spent)


def list_overdue(tx: Transaction, now: str) -> list[Approval]:
    """The first of the requests that are open and whose time is over."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approvals WHERE state IN (?, ?) AND expires_at <= ?"  # noqa: S608
        " ORDER BY expires_at, id LIMIT ?",
        (*_OPEN, now, PAGE_ROWS),
    )
    return [_request_from_row(row, ()) for row in rows]


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _load_answers(tx: Transaction, approval_id: str) -> tuple[ApprovalAnswer, ...]:
    rows = tx.all(
        "SELECT who, approved, at, comment, operator, scope, reach FROM approval_answers"
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


def _binding_from_json(kept: dict[str, Any]) -> Binding:
    subject: dict[str, Any] = kept.pop("subject")
    subject |= {name: tuple(subject[name]) for name in ("effects", "policies")}
    people = {name: tuple(kept.pop(name, ())) for name in ("approvers", "editors")}
    return Binding(subject=ApprovedAction(**subject), **people, **kept)


TransactionPublisher = Callable[[Transaction, Tenant, str | None], EventSink]
"""The seam through which a unit of work tells what it did for a tenant, and to which call that belongs; kept with the
work, or neither is."""


@dataclass(frozen=True, slots=True)
class ApprovalTransaction:
    """One transaction of one tenant, at one moment."""

    tx: Transaction
    tenant: Tenant
    now: str
    clock: Clock
    random: Random
    publish_in: TransactionPublisher

    def publish(self, call: str | None = None) -> EventSink:
        """Where to tell what this did; `call` is the one that it is about."""
        return self.publish_in(self.tx, self.tenant, call)

    def new_id(self, prefix: str) -> str:
        return new_id(prefix, self.clock, self.random)
