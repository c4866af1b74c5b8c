"""Requests by the people they concern: a page of what a person may answer, of what others answer for them, and of all
that they may see.

The conditions are those of `access.py`. Each is a row for each person, role or group, in the order of the list, so that
a page reads little more than itself, however many requests wait; see `party_rows.py`.
"""

# ruff: noqa: S608 - only conditions and columns of this module are put into SQL; every value is bound

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from paddock.approvals.access import PERSON_KINDS, PERSONAL_KINDS
from paddock.core.call import Principal
from paddock.manifest.effects import Risk, risk_of_rank
from paddock.store.database import Transaction

MAX_SHOWN_PAYLOAD_BYTES: Final = 2_000  # parameters up to this size are part of a list
_RANGES_PER_QUERY: Final = 100  # of the index; a person in many groups has more, and SQLite joins 500 at most
_ORDER: Final = "risk, expires_at, created_at, approval"
_BY_URGENCY: Final = " INDEXED BY approval_parties_by_urgency"
_MINE: Final = (
    "FROM approval_parties AS mine"
    " WHERE mine.approval = parties.approval AND mine.who = ? AND mine.part IN ('barred', 'answered')"
)


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
    """A call that waits for an answer."""

    call: str
    plugin: str
    callable: str
    requester: str
    for_person: str
    created_at: str


class _Range(NamedTuple):
    """A part of the index by urgency: the requests of one kind in which someone has a part."""

    who: str
    part: str
    kind: str


# --- lists ------------------------------------------------------------------------------------------------------------


def list_answerable(
    tx: Transaction, by: Principal, now: str, *, kinds: tuple[str, ...], after: Urgency | None = None, limit: int
) -> list[WaitingApproval]:
    """Return the pending requests of these kinds that a person may answer, the most urgent first."""
    return _page(tx, by, now, _answerable_ranges(by, kinds), *_not_mine(by), after, limit)


def list_with_others(
    tx: Transaction, by: Principal, now: str, *, kinds: tuple[str, ...], after: Urgency | None = None, limit: int
) -> list[WaitingApproval]:
    """Return a person's own pending requests that others answer, and those that need more answers than theirs."""
    return _page(tx, by, now, _own_ranges(by, kinds), *_not_answerable(by), after, limit)


def count_answerable(tx: Transaction, by: Principal, now: str, kinds: tuple[str, ...], limit: int) -> int:
    """Count the requests of `list_answerable`, at most up to a limit."""
    return _count(tx, by, now, _answerable_ranges(by, kinds), *_not_mine(by), limit)


def count_with_others(tx: Transaction, by: Principal, now: str, kinds: tuple[str, ...], limit: int) -> int:
    """Count the requests of `list_with_others`, at most up to a limit."""
    return _count(tx, by, now, _own_ranges(by, kinds), *_not_answerable(by), limit)


def find_answerable(
    tx: Transaction, by: Principal, now: str, *, kinds: tuple[str, ...], approval_id: str
) -> WaitingApproval | None:
    """Return one request of `list_answerable`."""
    return _find(tx, by, now, _answerable_ranges(by, kinds), *_not_mine(by), approval_id)


def find_with_others(
    tx: Transaction, by: Principal, now: str, *, kinds: tuple[str, ...], approval_id: str
) -> WaitingApproval | None:
    """Return one request of `list_with_others`."""
    return _find(tx, by, now, _own_ranges(by, kinds), *_not_answerable(by), approval_id)


def list_visible(
    tx: Transaction, by: Principal, *, open_only: bool, before: tuple[str, str] | None, limit: int
) -> list[str]:
    """Return the ids of the requests that a principal may see, newest first; see `access.can_see`.

    For all but operators, who see those of their tenant.
    """
    place, values = ("", ()) if before is None else (" AND (created_at, approval) < (?, ?)", before)
    found: set[tuple[str, str]] = set()
    identities = _identities(by)
    for start in range(0, len(identities), _RANGES_PER_QUERY // 2):
        ranges = [
            (who, ended)
            for who in identities[start : start + _RANGES_PER_QUERY // 2]
            for ended in ((0,) if open_only else (0, 1))
        ]
        parts = (
            f"SELECT created_at, approval FROM (SELECT created_at, approval FROM approval_viewers"
            f" WHERE tenant = ? AND who = ? AND ended = ?{place}"
            f" ORDER BY created_at DESC, approval DESC LIMIT ?) AS of_{number}"
            for number in range(len(ranges))
        )
        bound = [value for who, ended in ranges for value in (by.tenant, who, ended, *values, limit)]
        sql = f"{' UNION '.join(parts)} ORDER BY created_at DESC, approval DESC LIMIT ?"
        found.update(tx.tuples(sql, (*bound, limit)))
    return [approval for _, approval in sorted(found, reverse=True)[:limit]]


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
    if requesters is not None and not requesters:
        return []
    where, values, index = "", list[str](), "approvals_open"
    if plugin:
        where += " AND plugin = ?"
        values.append(plugin)
        index = "approvals_open_of_plugin"
    if requesters is not None:
        where += f" AND requester IN ({_marks(requesters)})"
        values += requesters
        index = "approvals_open_of_requester"
    rows = tx.all(
        f"SELECT {', '.join(WaitingCall._fields)} FROM approvals INDEXED BY {index} WHERE tenant = ?"
        f" AND ended_at IS NULL AND state = 'pending' AND expires_at > ? AND call <> ''{where}"
        " ORDER BY created_at DESC, id DESC LIMIT ?",
        (tenant, now, *values, limit),
    )
    return [WaitingCall(**row) for row in rows]


# --- queries ----------------------------------------------------------------------------------------------------------


def _identities(by: Principal) -> list[str]:
    return [by.id, *sorted(f"role:{role}" for role in by.roles), *sorted(f"group:{group}" for group in by.groups)]


def _answerable_ranges(by: Principal, kinds: tuple[str, ...]) -> list[_Range]:
    """Return where the requests are that ask this principal; see `access.require_may_answer`."""
    if by.kind not in PERSON_KINDS:
        return []
    if not by.interactive:  # a key or an operator who passes answers on answers only what is asked of the person
        return [_Range(by.id, "approver", kind) for kind in kinds if kind in PERSONAL_KINDS]
    own, *shared = _identities(by)
    return [
        *(_Range(own, "approver", kind) for kind in kinds),
        # Only the person whom a call is for is asked for a confirmation or a consent.
        *(_Range(who, "approver", kind) for who in shared for kind in kinds if kind not in PERSONAL_KINDS),
    ]


def _own_ranges(by: Principal, kinds: tuple[str, ...]) -> list[_Range]:
    return [_Range(by.id, part, kind) for part in ("owner", "answered") for kind in kinds]


def _not_mine(by: Principal) -> tuple[str, list[str]]:
    """Return the condition that an answer of this principal counts, for a request that asks them."""
    return f"NOT EXISTS (SELECT 1 {_MINE})", [by.id]


def _not_answerable(by: Principal) -> tuple[str, list[str]]:
    """Return the condition that this principal may not answer a request."""
    # Counted, where the other condition says EXISTS: PostgreSQL would read all rows of a person into a hash table.
    asked, names = "", list[str]()
    if by.kind in PERSON_KINDS:
        names = _identities(by) if by.interactive else [by.id]
        personal = "" if by.interactive else f" AND asked.kind IN ({_literals(PERSONAL_KINDS)})"
        asked = (
            " OR (SELECT COUNT(*) FROM approval_parties AS asked WHERE asked.approval = parties.approval"
            f" AND asked.who IN ({_marks(names)}) AND asked.part = 'approver'{personal}) = 0"
        )
        return f"((SELECT COUNT(*) {_MINE}) > 0{asked})", [by.id, *names]
    return "1 = 1", []


def _page(
    tx: Transaction,
    by: Principal,
    now: str,
    ranges: Sequence[_Range],
    condition: str,
    values: list[str],
    after: Urgency | None,
    limit: int,
) -> list[WaitingApproval]:
    if after is not None:
        condition, values = f"({_ORDER}) > (?, ?, ?, ?) AND {condition}", [*after, *values]  # type: ignore[list-item]
    found: set[tuple[int, str, str, str]] = set()
    for sql, bound in _selects(by, now, ranges, condition, values, limit, order=f" ORDER BY {_ORDER}"):
        found.update(tx.tuples(f"{sql} ORDER BY {_ORDER} LIMIT ?", (*bound, limit)))
    return _load(tx, [approval for *_, approval in sorted(found)[:limit]])


def _count(
    tx: Transaction,
    by: Principal,
    now: str,
    ranges: Sequence[_Range],
    condition: str,
    values: list[str],
    limit: int,
) -> int:
    found: set[str] = set()
    # Ordered too: without an order PostgreSQL reads all of a range at once.
    for sql, bound in _selects(by, now, ranges, condition, values, limit, order=f" ORDER BY {_ORDER}"):
        found.update(approval for *_, approval in tx.tuples(f"{sql} LIMIT ?", (*bound, limit)))
        if len(found) >= limit:
            return limit
    return len(found)


def _find(
    tx: Transaction,
    by: Principal,
    now: str,
    ranges: Sequence[_Range],
    condition: str,
    values: list[str],
    approval_id: str,
) -> WaitingApproval | None:
    condition, values = f"approval = ? AND {condition}", [approval_id, *values]
    for sql, bound in _selects(by, now, ranges, condition, values, 1, index=""):
        if tx.tuples(f"{sql} LIMIT 1", bound):
            return _load(tx, [approval_id])[0]
    return None


def _selects(
    by: Principal,
    now: str,
    ranges: Sequence[_Range],
    condition: str,
    values: list[str],
    limit: int,
    *,
    order: str = "",
    index: str = _BY_URGENCY,
) -> list[tuple[str, list[Any]]]:
    """Return queries of what is in these ranges: each range gives at most as many rows as are wanted in all."""
    selects: list[tuple[str, list[Any]]] = []
    for start in range(0, len(ranges), _RANGES_PER_QUERY):
        batch = ranges[start : start + _RANGES_PER_QUERY]
        parts = (
            f"SELECT {_ORDER} FROM (SELECT {_ORDER} FROM approval_parties AS parties{index}"
            " WHERE tenant = ? AND who = ? AND part = ? AND kind = ?"
            f" AND expires_at > ? AND {condition}{order} LIMIT ?) AS of_{number}"
            for number in range(len(batch))
        )
        bound = [value for one in batch for value in (by.tenant, *one, now, *values, limit)]
        selects.append((" UNION ".join(parts), bound))
    return selects


def _load(tx: Transaction, ids: Sequence[str]) -> list[WaitingApproval]:
    """Return requests in this order."""
    if not ids:
        return []
    rows = tx.all(
        "SELECT id, kind, call, plugin, callable, requester, for_person, risk, binding, binding_hash, context, reason,"
        " public_reason, remember, created_at, expires_at,"
        f" CASE WHEN payload_bytes <= {MAX_SHOWN_PAYLOAD_BYTES} THEN payload ELSE NULL END AS payload,"
        " (SELECT COUNT(*) FROM approval_answers WHERE approval = approvals.id) AS approvals"
        f" FROM approvals WHERE id IN ({_marks(ids)})",
        ids,
    )
    by_id = {row["id"]: _request_from_row(row) for row in rows}
    return [by_id[each] for each in ids]


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _literals(values: Collection[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


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
