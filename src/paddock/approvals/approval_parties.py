"""Pending requests by urgency, of one person: those they may answer, and their own that others answer.

The conditions are those of `access.py` in SQL, so that a page of ten thousand requests reads little more than itself.
The rows of `approval_parties` exist as long as a request is open.
"""

# ruff: noqa: S608 - only conditions and columns of this module are put into SQL; every value is bound

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from paddock.approvals.access import PERSON_KINDS, PERSONAL_KINDS
from paddock.approvals.model import Approval
from paddock.core.call import OPERATOR, Principal
from paddock.manifest.effects import Risk, risk_of_rank
from paddock.store.database import Transaction

MAX_SHOWN_PAYLOAD_BYTES: Final = 2_000  # parameters up to this size are part of a list
_PERSONAL_MARKS: Final = ", ".join(f"'{kind.value}'" for kind in sorted(PERSONAL_KINDS))


class Urgency(NamedTuple):
    """The sort key of a pending request: its risk, its deadline and its age."""

    rank: int
    expires_at: str
    created_at: str
    id: str


class WaitingApproval(Struct, frozen=True):
    """A pending request as lists show it.

    Attributes:
        payload: The exact parameters; None if they are too long for a list.
        approvals: The number of people who approved so far.
    """

    id: str
    kind: str
    call: str
    plugin: str
    callable: str
    requester: str
    for_person: str
    session: str | None
    risk: Risk
    effects: tuple[str, ...]
    answerable_by: tuple[str, ...]
    quorum: int
    approvals: int
    four_eyes: bool
    remember: str
    policies: tuple[str, ...]
    reason: str
    public_reason: str
    binding_hash: str
    payload: Mapping[str, Any] | None
    created_at: str
    expires_at: str

    @property
    def urgency(self) -> Urgency:
        return Urgency(self.risk.rank, self.expires_at, self.created_at, self.id)


class WaitingCall(NamedTuple):
    """A call that waits for an answer, on whichever host."""

    call: str
    plugin: str
    callable: str
    requester: str
    for_person: str
    created_at: str


def insert_parties(tx: Transaction, approval: Approval) -> None:
    """Record who may answer a new request, and who may not because they asked for it."""
    parties = {(who, "approver") for who in approval.answerable_by if who}
    if approval.binding.four_eyes and approval.kind not in PERSONAL_KINDS:
        parties |= {(who, "requester") for who in approval.requesters if who}
    for who, part in sorted(parties):
        tx.execute("INSERT INTO approval_parties (approval, who, part) VALUES (?, ?, ?)", (approval.id, who, part))


def delete_parties(tx: Transaction, approval_id: str) -> None:
    """Forget who may answer a request that has ended."""
    tx.execute("DELETE FROM approval_parties WHERE approval = ?", (approval_id,))


def list_answerable(
    tx: Transaction, by: Principal, now: str, *, kinds: tuple[str, ...], after: Urgency | None = None, limit: int
) -> list[WaitingApproval]:
    """Return the pending requests of these kinds that a person may answer, the most urgent first."""
    where, values = _answerable(by)
    return _page(tx, by, now, f"AND {where}", values, kinds, after, limit)


def list_with_others(
    tx: Transaction, by: Principal, now: str, *, kinds: tuple[str, ...], after: Urgency | None = None, limit: int
) -> list[WaitingApproval]:
    """Return a person's own pending requests that others answer, and those that need more answers than theirs."""
    where, values = _with_others(by)
    return _page(tx, by, now, f"AND {where}", values, kinds, after, limit)


def count_answerable(tx: Transaction, by: Principal, now: str, kinds: tuple[str, ...], limit: int) -> int:
    """Count the requests of `list_answerable`, at most up to a limit."""
    where, values = _answerable(by)
    return _count(tx, by, now, f"AND {where}", values, kinds, limit)


def count_with_others(tx: Transaction, by: Principal, now: str, kinds: tuple[str, ...], limit: int) -> int:
    """Count the requests of `list_with_others`, at most up to a limit."""
    where, values = _with_others(by)
    return _count(tx, by, now, f"AND {where}", values, kinds, limit)


def list_waiting_calls(
    tx: Transaction, tenant: str, now: str, *, requesters: Sequence[str] | None, plugin: str, limit: int
) -> list[WaitingCall]:
    """Return the calls of a tenant that wait for an answer, newest first.

    Args:
        tx: The transaction.
        tenant: The tenant.
        now: Requests that have expired are left out.
        requesters: Only their calls; None for everybody's.
        plugin: Only calls of this plugin; empty for all.
        limit: Maximum number of calls.
    """
    where, values = "", list[str]()
    if requesters is not None:
        where += f" AND requester IN ({', '.join('?' * len(requesters))})"
        values += requesters
    if plugin:
        where += " AND plugin = ?"
        values.append(plugin)
    rows = tx.all(
        f"SELECT {', '.join(WaitingCall._fields)} FROM approvals WHERE tenant = ? AND state = 'pending'"
        f" AND expires_at > ? AND call <> ''{where} ORDER BY created_at DESC, id DESC LIMIT ?",
        (tenant, now, *values, limit),
    )
    return [WaitingCall(**row) for row in rows]


def find_answerable(
    tx: Transaction, by: Principal, now: str, *, kinds: tuple[str, ...], approval_id: str
) -> WaitingApproval | None:
    """Return one request of `list_answerable`."""
    where, values = _answerable(by)
    found = _page(tx, by, now, f"AND id = ? AND {where}", [approval_id, *values], kinds, None, 1)
    return found[0] if found else None


def find_with_others(
    tx: Transaction, by: Principal, now: str, *, kinds: tuple[str, ...], approval_id: str
) -> WaitingApproval | None:
    """Return one request of `list_with_others`."""
    where, values = _with_others(by)
    found = _page(tx, by, now, f"AND id = ? AND {where}", [approval_id, *values], kinds, None, 1)
    return found[0] if found else None


def _answerable(by: Principal) -> tuple[str, list[str]]:
    """Return the condition under which an answer of this principal counts; see `access.require_may_answer`."""
    if by.kind not in PERSON_KINDS:
        return "1 = 0", []
    identities = [by.id, *sorted(f"role:{role}" for role in by.roles), *sorted(f"group:{group}" for group in by.groups)]
    mine = (
        "id IN (SELECT approval FROM approval_parties WHERE part = 'approver'"
        f" AND who IN ({', '.join('?' * len(identities))}))"
    )
    if not by.interactive:  # a key or an operator who passes answers on answers only what is asked of the person
        mine, identities = f"kind IN ({_PERSONAL_MARKS}) AND for_person = ?", [by.id]
    elif OPERATOR in by.roles:
        mine = f"(kind NOT IN ({_PERSONAL_MARKS}) OR for_person = ?)"
        identities = [by.id]
    return (
        f"{mine} AND NOT EXISTS (SELECT 1 FROM approval_parties"
        " WHERE approval = approvals.id AND who = ? AND part = 'requester')"
        " AND NOT EXISTS (SELECT 1 FROM approval_answers WHERE approval = approvals.id AND who = ?)",
        [*identities, by.id, by.id],
    )


def _with_others(by: Principal) -> tuple[str, list[str]]:
    where, values = _answerable(by)
    own = (
        "(requester = ? OR for_person = ?"
        " OR EXISTS (SELECT 1 FROM approval_answers WHERE approval = approvals.id AND who = ?))"
    )
    return f"{own} AND NOT ({where})", [by.id, by.id, by.id, *values]


def _pending(by: Principal, now: str, kinds: tuple[str, ...]) -> tuple[str, list[Any]]:
    where = f"tenant = ? AND state = 'pending' AND expires_at > ? AND kind IN ({', '.join('?' * len(kinds))})"
    return where, [by.tenant, now, *kinds]


def _page(
    tx: Transaction,
    by: Principal,
    now: str,
    condition: str,
    values: list[str],
    kinds: tuple[str, ...],
    after: Urgency | None,
    limit: int,
) -> list[WaitingApproval]:
    where, bound = _pending(by, now, kinds)
    bound += values
    if after is not None:
        condition += " AND (risk, expires_at, created_at, id) > (?, ?, ?, ?)"
        bound += after
    rows = tx.all(
        "SELECT id, kind, call, plugin, callable, requester, for_person, risk, binding, binding_hash, context, reason,"
        " public_reason, remember, created_at, expires_at,"
        f" CASE WHEN payload_bytes <= {MAX_SHOWN_PAYLOAD_BYTES} THEN payload ELSE NULL END AS payload,"
        " (SELECT COUNT(*) FROM approval_answers WHERE approval = approvals.id) AS approvals"
        f" FROM approvals WHERE {where} {condition} ORDER BY risk, expires_at, created_at, id LIMIT ?",
        (*bound, limit),
    )
    return [_request_from_row(row) for row in rows]


def _count(
    tx: Transaction, by: Principal, now: str, condition: str, values: list[str], kinds: tuple[str, ...], limit: int
) -> int:
    where, bound = _pending(by, now, kinds)
    row = tx.one(
        f"SELECT COUNT(*) AS many FROM (SELECT 1 FROM approvals WHERE {where} {condition} LIMIT ?) AS found",
        (*bound, *values, limit),
    )
    return 0 if row is None else int(row["many"])


def _request_from_row(row: dict[str, Any]) -> WaitingApproval:
    binding, context = json.loads(row["binding"]), json.loads(row["context"])
    personal = row["kind"] in PERSONAL_KINDS
    return WaitingApproval(
        id=row["id"],
        kind=row["kind"],
        call=row["call"],
        plugin=row["plugin"],
        callable=row["callable"],
        requester=row["requester"],
        for_person=row["for_person"],
        session=context.get("session"),
        risk=risk_of_rank(row["risk"]),
        effects=tuple(binding["subject"]["effects"]),
        answerable_by=(row["for_person"],) if personal else tuple(binding["approvers"]),
        quorum=binding["quorum"],
        approvals=row["approvals"],
        four_eyes=binding["four_eyes"],
        remember=row["remember"] if row["kind"] == "confirmation" else "never",
        policies=tuple(binding["subject"]["policies"]),
        reason=row["reason"],
        public_reason=row["public_reason"],
        binding_hash=row["binding_hash"],
        payload=None if row["payload"] is None else json.loads(row["payload"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )
