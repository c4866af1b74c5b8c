"""Queries over idempotency records: in doubt, parked, resolved, and whether a queue job works on them."""

# ruff: noqa: S608 - only constants of this module are put into SQL; every value is bound

from __future__ import annotations

from typing import NamedTuple

from paddock.core.ids import Tenant
from paddock.gate.idempotency.records import (
    NO_HOLDER,
    POLL_JOB,
    RECOVER_JOB,
    SELECT_RECORD,
    UNFINISHED,
    IdempotencyRecord,
    record_from_row,
)
from paddock.gate.idempotency.states import FINAL_STATES, EffectState
from paddock.store.transaction import Transaction

_RECOVERY_JOB_EXISTS = (
    "EXISTS (SELECT 1 FROM queue WHERE queue.tenant = effects.tenant AND queue.key = effects.call "
    f"AND queue.kind IN ('{RECOVER_JOB}', '{RECOVER_JOB}:' || effects.node))"
)

_IN_STATE = f"state = ? AND {UNFINISHED}"
_WAITING = f"{_IN_STATE} AND (recovery = 'none' OR NOT {_RECOVERY_JOB_EXISTS})"  # for a person


class RecoverySchedule(NamedTuple):
    """Recovery of an effect in doubt: number of tries, last error, and time of the next try."""

    tries: int
    last_error: str | None  # an error code
    next_at: str
    now: bool  # a node is running it


class InDoubtCount(NamedTuple):
    """Number of effects in doubt.

    Attributes:
        total: All of them.
        waiting: Those that no host recovers automatically.
        latest: The latest call among the waiting ones; empty if there is none.
    """

    total: int = 0
    waiting: int = 0
    latest: str = ""


def list_in_state(
    tx: Transaction, state: EffectState, *, tenant: Tenant | None = None, after: str | None = None, limit: int = 1000
) -> list[IdempotencyRecord]:
    """List records in a state, oldest first; of all tenants, or of one tenant and then optionally after a call.

    An index finds those that are not over; all others are looked for in the whole table.
    """
    where, values = ["state = ?" if state in FINAL_STATES else _IN_STATE], [state.value]
    if tenant is not None:
        where.append("tenant = ?")
        values.append(tenant)
        if after is not None:
            where.append("(claimed_at, call) > (SELECT claimed_at, call FROM effects WHERE tenant = ? AND call = ?)")
            values += [tenant, after]
    rows = tx.all(f"{SELECT_RECORD} WHERE {' AND '.join(where)} ORDER BY claimed_at, call LIMIT ?", (*values, limit))
    return [record_from_row(row) for row in rows]


def list_waiting(
    tx: Transaction, tenant: Tenant, *, after: tuple[str, str] | None = None, limit: int = 1000
) -> list[IdempotencyRecord]:
    """List a tenant's effects in doubt that no host recovers, oldest first, optionally after a time and call."""
    where, values = f"{_WAITING} AND tenant = ?", [EffectState.IN_DOUBT.value, str(tenant)]
    if after is not None:
        where += " AND (claimed_at, call) > (?, ?)"
        values += after
    rows = tx.all(f"{SELECT_RECORD} WHERE {where} ORDER BY claimed_at, call LIMIT ?", (*values, limit))
    return [record_from_row(row) for row in rows]


def find_waiting(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord | None:
    """Return the effect of a call if it is in doubt and no host recovers it."""
    row = tx.one(f"{SELECT_RECORD} WHERE {_WAITING} AND tenant = ? AND call = ?", (EffectState.IN_DOUBT, tenant, call))
    return None if row is None else record_from_row(row)


def list_resolved(
    tx: Transaction, tenant: Tenant, *, after: str | None = None, limit: int = 1000
) -> list[IdempotencyRecord]:
    """List a tenant's records that were in doubt and are resolved, latest first, optionally after a call."""
    where, values = "tenant = ? AND resolution IS NOT NULL", [tenant]
    if after is not None:
        where += " AND (claimed_at, call) < (SELECT claimed_at, call FROM effects WHERE tenant = ? AND call = ?)"
        values += [tenant, after]
    rows = tx.all(f"{SELECT_RECORD} WHERE {where} ORDER BY claimed_at DESC, call DESC LIMIT ?", (*values, limit))
    return [record_from_row(row) for row in rows]


def count_in_doubt_by_tenant(tx: Transaction) -> dict[Tenant, int]:
    """Count effects in doubt for each tenant that has any."""
    rows = tx.all(
        f"SELECT tenant, COUNT(*) AS count FROM effects WHERE {_IN_STATE} GROUP BY tenant", (EffectState.IN_DOUBT,)
    )
    return {Tenant(row["tenant"]): row["count"] for row in rows}


def recovery_schedule(tx: Transaction, effect: IdempotencyRecord) -> RecoverySchedule | None:
    """Return the recovery schedule of an effect; None if no job in the queue recovers it."""
    row = tx.one(
        "SELECT tries, due_at, reason, node FROM queue WHERE tenant = ? AND key = ? "
        f"AND kind IN ('{RECOVER_JOB}', '{RECOVER_JOB}:' || ?)",
        (effect.effect_key.tenant, effect.call, effect.holder.node),
    )
    return (
        None if row is None else RecoverySchedule(row["tries"], row["reason"], row["due_at"], row["node"] is not None)
    )


def in_doubt_unscheduled(tx: Transaction, limit: int = 1000) -> list[IdempotencyRecord]:
    """List effects in doubt that could be recovered but have no recovery job in the queue."""
    rows = tx.all(
        f"{SELECT_RECORD} WHERE {_IN_STATE} AND recovery <> 'none' AND NOT {_RECOVERY_JOB_EXISTS} "
        "ORDER BY claimed_at, call LIMIT ?",
        (EffectState.IN_DOUBT, limit),
    )
    return [record_from_row(row) for row in rows]


def list_parked(tx: Transaction, limit: int) -> list[IdempotencyRecord]:
    """List parked effects, whose operators are still working, oldest first."""
    rows = tx.all(
        f"{SELECT_RECORD} WHERE node = ? AND epoch = ? AND {_IN_STATE} ORDER BY claimed_at, call LIMIT ?",
        (*NO_HOLDER, EffectState.STARTED, limit),
    )
    return [record_from_row(row) for row in rows]


def parked_unscheduled(tx: Transaction, limit: int = 1000) -> list[IdempotencyRecord]:
    """List parked effects that no queue job follows: the host that cancelled one died before marking it in doubt."""
    rows = tx.all(
        f"{SELECT_RECORD} WHERE node = ? AND epoch = ? AND {_IN_STATE} AND NOT EXISTS (SELECT 1 FROM queue "
        f"WHERE queue.tenant = effects.tenant AND queue.key = effects.call AND queue.kind = '{POLL_JOB}') "
        "ORDER BY claimed_at, call LIMIT ?",
        (*NO_HOLDER, EffectState.STARTED, limit),
    )
    return [record_from_row(row) for row in rows]


def count_in_doubt(tx: Transaction, tenant: Tenant) -> InDoubtCount:
    """Count a tenant's effects in doubt."""
    recovers = f"recovery <> 'none' AND {_RECOVERY_JOB_EXISTS}"
    row = tx.one(
        f"SELECT COUNT(*) AS total, SUM(CASE WHEN {recovers} THEN 0 ELSE 1 END) AS waiting, "
        f"MAX(CASE WHEN {recovers} THEN '' ELSE call END) AS latest FROM effects WHERE {_IN_STATE} AND tenant = ?",
        (EffectState.IN_DOUBT, tenant),
    )
    return InDoubtCount(row["total"], row["waiting"], row["latest"]) if row and row["total"] else InDoubtCount()
