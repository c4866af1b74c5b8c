"""Open requests among very many: by requester, plugin, call and deadline. Each query is a part of an index.

Every function takes part in its caller's transaction. SQLite is told the index: it has no statistics to choose by.
"""

# ruff: noqa: S608 - only columns and placeholders are put into SQL; every value is bound

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from paddock.approvals.model import OPEN_STATES, Approval, ApprovalState
from paddock.approvals.party_rows import delete_parties, end_views
from paddock.approvals.store import (
    COLUMNS_WITHOUT_PAYLOAD,
    REQUESTS_PAGE_ROWS,
    load_answers_of,
    load_brief,
    request_from_row,
)
from paddock.store.database import Transaction

UNUSED_PAGE_ROWS = 500
_CALLS_PER_QUERY = 500


class UnusedApproval(NamedTuple):
    """A request that is approved and whose call was not made; only what says whether it can be made here."""

    id: str
    tenant: str
    plugin: str
    callable: str


def list_unused(tx: Transaction, after: str, now: str, plugin: str | None = None) -> list[UnusedApproval]:
    """Return the next requests of all tenants, or of one plugin, that are approved and whose calls were not made.

    Every host asks for them all the time, so this reads nothing but an index.
    """
    rows = tx.tuples(
        "SELECT id, tenant, plugin, callable FROM approvals INDEXED BY approvals_unused"
        " WHERE state = 'approved' AND id > ? AND expires_at > ? AND (? = '' OR plugin = ?) ORDER BY id LIMIT ?",
        (after, now, plugin or "", plugin or "", UNUSED_PAGE_ROWS),
    )
    return [UnusedApproval(*row) for row in rows]


def count_open(tx: Transaction, tenant: str, requester: str, limit: int) -> tuple[int, int]:
    """Count the open requests of one requester, at most so many, and the bytes of their payloads."""
    row = tx.one(
        "SELECT COUNT(*) AS many, COALESCE(SUM(payload_bytes), 0) AS bytes FROM (SELECT payload_bytes FROM approvals"
        " INDEXED BY approvals_open_of_requester WHERE tenant = ? AND requester = ? AND ended_at IS NULL LIMIT ?)"
        " AS own",
        (tenant, requester, limit),
    )
    return (0, 0) if row is None else (int(row["many"]), int(row["bytes"]))


def list_open_of(tx: Transaction, tenant: str, names: Collection[str], limit: int) -> list[Approval]:
    """Return open requests that some principals made, or may answer, without answers and payloads."""
    ids = [
        row["approval"]
        for row in tx.all(
            "SELECT DISTINCT approval FROM approval_viewers"
            f" WHERE tenant = ? AND who IN ({', '.join('?' * len(names))}) AND ended = 0 LIMIT ?",
            (tenant, *sorted(names), limit),
        )
    ]
    return [approval for approval in load_brief(tx, ids) if approval.state in OPEN_STATES]


def list_open_of_plugin(
    tx: Transaction, tenant: str, plugin: str, callables: Collection[str], limit: int
) -> list[Approval]:
    """Return pending requests about some callables of a plugin, without answers and payloads."""
    if not callables:
        return []
    rows = tx.all(
        f"SELECT {COLUMNS_WITHOUT_PAYLOAD} FROM approvals INDEXED BY approvals_open_of_plugin"
        f" WHERE tenant = ? AND plugin = ? AND ended_at IS NULL AND state = 'pending'"
        f" AND callable IN ({', '.join('?' * len(callables))}) LIMIT ?",
        (tenant, plugin, *sorted(callables), limit),
    )
    return [request_from_row(row, ()) for row in rows]


def list_open_after(tx: Transaction, tenant: str, after: tuple[str, str]) -> list[Approval]:
    """Return the next open requests of a tenant, oldest first, without payloads."""
    rows = tx.all(
        f"SELECT {COLUMNS_WITHOUT_PAYLOAD} FROM approvals INDEXED BY approvals_open"
        " WHERE tenant = ? AND ended_at IS NULL AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?",
        (tenant, *after, REQUESTS_PAGE_ROWS),
    )
    answers = load_answers_of(tx, [row["id"] for row in rows])
    return [request_from_row(row, answers.get(row["id"], ())) for row in rows]


def open_states(tx: Transaction, calls: Sequence[str]) -> dict[str, ApprovalState]:
    """Return which of some calls have an open request, with its state."""
    states: dict[str, ApprovalState] = {}
    for start in range(0, len(calls), _CALLS_PER_QUERY):
        batch = calls[start : start + _CALLS_PER_QUERY]
        rows = tx.all(
            "SELECT call, state FROM approvals INDEXED BY approvals_by_call"
            f" WHERE call IN ({', '.join('?' * len(batch))}) AND ended_at IS NULL",
            batch,
        )
        states |= {row["call"]: ApprovalState(row["state"]) for row in rows}
    return states


def count_waiting(tx: Transaction, limit: int) -> int:
    """Count the open requests of all tenants, at most so many."""
    row = tx.one(
        "SELECT COUNT(*) AS many FROM (SELECT 1 FROM approvals INDEXED BY approvals_open"
        " WHERE ended_at IS NULL LIMIT ?) AS waiting",
        (limit,),
    )
    return 0 if row is None else int(row["many"])


def nearest_deadlines(tx: Transaction) -> dict[str, str]:
    """Return the nearest deadline of each tenant that has open requests; takes a step for each tenant."""
    rows = tx.tuples(
        "WITH RECURSIVE waiting (tenant) AS ("
        "SELECT MIN(tenant) FROM approvals WHERE ended_at IS NULL UNION ALL"
        " SELECT (SELECT MIN(tenant) FROM approvals WHERE ended_at IS NULL AND tenant > waiting.tenant)"
        " FROM waiting WHERE waiting.tenant IS NOT NULL)"
        " SELECT tenant, (SELECT MIN(expires_at) FROM approvals WHERE tenant = waiting.tenant AND ended_at IS NULL)"
        " FROM waiting WHERE tenant IS NOT NULL"
    )
    return dict(rows)


def nearest_deadline(tx: Transaction, tenant: str) -> str | None:
    """Return the nearest deadline of a tenant's open requests."""
    row = tx.one(
        "SELECT MIN(expires_at) AS nearest FROM approvals WHERE tenant = ? AND ended_at IS NULL",
        (tenant,),
    )
    return None if row is None else row["nearest"]


def expire_overdue(tx: Transaction, tenant: str, now: str, why: str, limit: int) -> list[Approval]:
    """End the first open requests of a tenant that are overdue, in a few statements for all of them.

    Returns them as they are now, without answers and payloads.

    Another host that does the same at the same time ends others, or none.
    """
    due = tx.tuples(
        "SELECT id FROM approvals INDEXED BY approvals_due"
        " WHERE tenant = ? AND ended_at IS NULL AND expires_at <= ? ORDER BY expires_at, id LIMIT ?",
        (tenant, now, limit),
    )
    if not due:
        return []
    ids = [row[0] for row in due]
    ended = tx.tuples(
        "UPDATE approvals SET state = 'expired', ended_at = ?, ended_why = ?"
        f" WHERE id IN ({', '.join('?' * len(ids))}) AND ended_at IS NULL RETURNING id",
        (now, why, *ids),
    )
    expired = load_brief(tx, [row[0] for row in ended])
    delete_parties(tx, [approval.id for approval in expired])
    end_views(tx, expired)
    return expired
