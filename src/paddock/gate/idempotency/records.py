"""The records of effects, one for each key: functions of a unit of work.

Whoever changes a record names the state and the fence that it has to have. Where it has another one somebody else was
there first, and nothing is changed.
"""

# ruff: noqa: S608 - what is put together are names of our own; every value is bound

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import orjson

from paddock.core.errors import HostError
from paddock.core.ids import CallId, Tenant
from paddock.gate.idempotency.states import EffectState, EffectTransition, KeyRecord, Resolution, next_state
from paddock.queue.leases import NodeRun
from paddock.store.transaction import Row, Transaction

RECOVER_JOB = "effect.recover"
"""The kind of work that finds out what became of one."""

STALE_CODE = "effect.stale"
"""The code of what comes too late: somebody else has said what became of an effect."""

NO_HOLDER = NodeRun("", 0)
"""Holds what an operator is still at work on: no host does, and it is followed by whichever takes it from the queue."""


class EffectKey(NamedTuple):
    """What an effect is known by: the same key of two callables stands for two things."""

    tenant: Tenant
    plugin: str
    callable: str
    key: str


class StoredCall(NamedTuple):
    """What a call is made with and where it came from, as JSON, to find out what became of it."""

    payload: str
    context: str


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """One effect as it stands in the store."""

    effect_key: EffectKey
    call: CallId
    state: EffectState
    fence: int
    payload_hash: str
    holder: NodeRun
    recovery: str
    claimed_at: str
    started_at: str | None
    ended_at: str | None
    principal: str | None
    payload: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    result: bytes | None = None
    error: Mapping[str, Any] | None = None
    resolution: Resolution | None = None
    resolved_by: str | None = None
    forgotten_at: str | None = None

    @property
    def parked(self) -> bool:
        """Whether its operator is still at work on it, and no host is."""
        return self.state is EffectState.STARTED and self.holder == NO_HOLDER

    @property
    def key_record(self) -> KeyRecord:
        return KeyRecord(self.state, self.payload_hash, self.forgotten_at is not None, self.principal)


class RecoverySchedule(NamedTuple):
    """Finding out what became of an effect: how often that was tried, what came of the last time, when it is next."""

    tries: int
    last_error: str | None  # a code
    next_at: str
    now: bool  # somebody is at it


_COLUMNS = (
    "tenant, plugin, callable, key, call, state, fence, payload_hash, node, epoch, recovery, claimed_at, started_at, "
    "ended_at, principal, payload, context, result, error, resolution, resolved_by, forgotten_at"
)
_SELECT = f"SELECT {_COLUMNS} FROM effects"
KEY_WHERE = "tenant = ? AND plugin = ? AND callable = ? AND key = ?"  # an `EffectKey`
_COMPOSITE_COLUMNS = frozenset(EffectKey._fields + NodeRun._fields)


def find(tx: Transaction, of: EffectKey) -> IdempotencyRecord | None:
    """What is recorded under a key."""
    row = tx.one(f"{_SELECT} WHERE {KEY_WHERE}", of)
    return None if row is None else _from_row(row)


def find_by_call(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord | None:
    """The effect of a call."""
    row = tx.one(f"{_SELECT} WHERE tenant = ? AND call = ?", (tenant, call))
    return None if row is None else _from_row(row)


def list_in_state(
    tx: Transaction, state: EffectState, *, tenant: Tenant | None = None, after: str | None = None, limit: int = 1000
) -> list[IdempotencyRecord]:
    """Those in a state, the oldest first; of everybody or of one tenant, and of that one those after a call."""
    where, values = ["state = ?"], [state.value]
    if tenant is not None:
        where.append("tenant = ?")
        values.append(tenant)
        if after is not None:
            where.append("(claimed_at, call) > (SELECT claimed_at, call FROM effects WHERE tenant = ? AND call = ?)")
            values += [tenant, after]
    rows = tx.all(f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY claimed_at, call LIMIT ?", (*values, limit))
    return [_from_row(row) for row in rows]


def list_resolved(
    tx: Transaction, tenant: Tenant, *, after: str | None = None, limit: int = 1000
) -> list[IdempotencyRecord]:
    """Those of a tenant that were in doubt until somebody found out: the latest first, those after a call."""
    where, values = "tenant = ? AND resolution IS NOT NULL", [tenant]
    if after is not None:
        where += " AND (claimed_at, call) < (SELECT claimed_at, call FROM effects WHERE tenant = ? AND call = ?)"
        values += [tenant, after]
    rows = tx.all(f"{_SELECT} WHERE {where} ORDER BY claimed_at DESC, call DESC LIMIT ?", (*values, limit))
    return [_from_row(row) for row in rows]


def count_in_doubt_by_tenant(tx: Transaction) -> dict[Tenant, int]:
    """How many are in doubt, of each tenant that has some."""
    rows = tx.all(
        "SELECT tenant, COUNT(*) AS count FROM effects WHERE state = ? GROUP BY tenant", (EffectState.IN_DOUBT,)
    )
    return {Tenant(row["tenant"]): row["count"] for row in rows}


def recovery_schedule(tx: Transaction, effect: IdempotencyRecord) -> RecoverySchedule | None:
    """How far it is with finding out what became of one; None where no work in the queue does."""
    row = tx.one(
        "SELECT tries, due_at, reason, node FROM queue WHERE tenant = ? AND key = ? "
        f"AND kind IN ('{RECOVER_JOB}', '{RECOVER_JOB}:' || ?)",
        (effect.effect_key.tenant, effect.call, effect.holder.node),
    )
    return (
        None if row is None else RecoverySchedule(row["tries"], row["reason"], row["due_at"], row["node"] is not None)
    )


def in_doubt_unscheduled(tx: Transaction, limit: int = 1000) -> list[IdempotencyRecord]:
    """Those in doubt of which it could be found out what became of them, and no work in the queue does."""
    rows = tx.all(
        f"{_SELECT} WHERE state = ? AND recovery <> 'none' AND NOT EXISTS (SELECT 1 FROM queue "
        "WHERE queue.tenant = effects.tenant AND queue.key = effects.call "
        f"AND queue.kind IN ('{RECOVER_JOB}', '{RECOVER_JOB}:' || effects.node)) ORDER BY claimed_at, call LIMIT ?",
        (EffectState.IN_DOUBT, limit),
    )
    return [_from_row(row) for row in rows]


def mark_in_doubt_for(tx: Transaction, holder: NodeRun, *, error: Mapping[str, Any]) -> list[IdempotencyRecord]:
    """A run of a host is over: nobody knows whether what it had started has happened. Gives those in doubt, the oldest
    first. One statement for all: there may be thousands."""
    rows = tx.all(
        f"UPDATE effects SET state = ?, error = ? WHERE node = ? AND epoch = ? AND state = ? RETURNING {_COLUMNS}",
        (
            next_state(EffectState.STARTED, EffectTransition.LOSE),
            orjson.dumps(error).decode(),
            *holder,
            EffectState.STARTED,
        ),
    )
    return sorted((_from_row(row) for row in rows), key=lambda effect: (effect.claimed_at, effect.call))


def claim(
    tx: Transaction,
    of: EffectKey,
    *,
    call: CallId,
    payload_hash: str,
    holder: NodeRun,
    recovery: str,
    now: str,
    principal: str | None,
    start: StoredCall | None = None,
) -> IdempotencyRecord | None:
    """Take a key that nobody has, or under which the same call of theirs came to nothing; None where somebody has it.

    The fence is higher than any that the key had before: what was sent under a former one is stale. Where nobody ever
    had the key, and the call could `start`, it has started: nearly every call is such a one, and costs one statement.
    """
    state, fence, kept = (
        (EffectState.FAILED_NO_EFFECT, 0, (None,) * 3) if start is None else (EffectState.STARTED, 1, (now, *start))
    )
    first = tx.execute(
        "INSERT INTO effects (tenant, plugin, callable, key, call, state, fence, payload_hash, node, epoch, recovery, "
        "claimed_at, principal, started_at, payload, context) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*of, call, state, fence, payload_hash, *holder, recovery, now, principal, *kept),
    )
    if first and start is not None:
        return IdempotencyRecord(of, call, state, fence, payload_hash, holder, recovery, now, now, None, principal)
    changed = tx.execute(
        "UPDATE effects SET state = ?, fence = fence + 1, call = ?, node = ?, epoch = ?, recovery = ?, claimed_at = ?, "
        "principal = ?, started_at = NULL, ended_at = NULL, payload = NULL, context = NULL, error = NULL, "
        "resolution = NULL, resolved_by = NULL, forgotten_at = NULL "
        f"WHERE {KEY_WHERE} AND state = ? AND payload_hash = ? AND (principal IS NULL OR principal = ?)",
        (
            EffectState.CLAIMED,
            call,
            *holder,
            recovery,
            now,
            principal,
            *of,
            EffectState.FAILED_NO_EFFECT,
            payload_hash,
            principal,
        ),
    )
    return find(tx, of) if changed else None


def release_claim(tx: Transaction, effect: IdempotencyRecord) -> bool:
    """Let go of a key that was kept for a call which waited for a person and comes to nothing."""
    # And the call: a key that was given back before is claimed under the same fence once more.
    where = f"{KEY_WHERE} AND call = ? AND fence = ? AND state = ?"
    kept = (*effect.effect_key, effect.call, effect.fence, EffectState.AWAITING_APPROVAL)
    if effect.fence == 1:  # nobody had it before, so nobody needs to know of it
        return bool(tx.execute(f"DELETE FROM effects WHERE {where}", kept))
    return bool(tx.execute(f"UPDATE effects SET state = ? WHERE {where}", (EffectState.FAILED_NO_EFFECT, *kept)))


def mark_awaiting_approval(tx: Transaction, effect: IdempotencyRecord) -> None:
    """A person is asked first.

    Raises:
        HostError: it is not where it can be held.
    """
    _transition(tx, effect, EffectTransition.HOLD, "", ())


def mark_started(
    tx: Transaction,
    effect: IdempotencyRecord,
    *,
    holder: NodeRun,
    now: str,
    payload: Mapping[str, Any],
    context: Mapping[str, Any],
) -> IdempotencyRecord:
    """It is about to reach its plugin, from this host, which need not be the one that held it before.

    What it is made with is kept until it is over, to find out what became of it.

    The key goes on to stand for what its caller asked for, whatever the person who was asked first made of that.

    Raises:
        HostError: it is not where it can start: somebody else was quicker.
    """
    _transition(
        tx,
        effect,
        EffectTransition.START,
        ", started_at = ?, node = ?, epoch = ?, payload = ?, context = ?",
        (now, *holder, *encode_call(payload, context)),
    )
    return replace(effect, state=EffectState.STARTED, holder=holder)


def encode_call(payload: Mapping[str, Any], context: Mapping[str, Any]) -> StoredCall:
    """What is kept of a call as it starts."""
    return StoredCall(orjson.dumps(payload).decode(), orjson.dumps(context).decode())


def park(tx: Transaction, effect: IdempotencyRecord, *, context: Mapping[str, Any]) -> None:
    """Its operator is still at work: it stays started, and no host that ends takes it with it.

    Raises:
        HostError: it is not under way any more.
    """
    changed = tx.execute(
        f"UPDATE effects SET node = ?, epoch = ?, context = ? WHERE {KEY_WHERE} AND state = ? AND fence = ?",
        (*NO_HOLDER, orjson.dumps(context).decode(), *effect.effect_key, EffectState.STARTED, effect.fence),
    )
    if not changed:
        raise _stale_error(effect, "go on")


def store_progress(tx: Transaction, effect: IdempotencyRecord, *, context: Mapping[str, Any]) -> None:
    """Its operator is at work on one that is in doubt: it stays so, and is asked again with what it said.

    Raises:
        HostError: it is not in doubt any more, or somebody else has taken it over.
    """
    changed = tx.execute(
        f"UPDATE effects SET context = ? WHERE {KEY_WHERE} AND state = ? AND fence = ?",
        (orjson.dumps(context).decode(), *effect.effect_key, EffectState.IN_DOUBT, effect.fence),
    )
    if not changed:
        raise _stale_error(effect, "go on")


def raise_fence(tx: Transaction, effect: IdempotencyRecord) -> IdempotencyRecord:
    """Make the run that comes next of a call the one whose word counts: what was sent under the fence so far is stale.

    Raises:
        HostError: somebody else has taken it over, or it is not where it was.
    """
    changed = tx.execute(
        f"UPDATE effects SET fence = fence + 1 WHERE {KEY_WHERE} AND state = ? AND fence = ?",
        (*effect.effect_key, effect.state, effect.fence),
    )
    if not changed:
        raise _stale_error(effect, "go on")
    return replace(effect, fence=effect.fence + 1)


def list_parked(tx: Transaction, limit: int) -> list[IdempotencyRecord]:
    """Those that operators are still at work on, the oldest first."""
    rows = tx.all(
        f"{_SELECT} WHERE node = ? AND epoch = ? AND state = ? ORDER BY claimed_at, call LIMIT ?",
        (*NO_HOLDER, EffectState.STARTED, limit),
    )
    return [_from_row(row) for row in rows]


def parked_unscheduled(tx: Transaction, limit: int = 1000) -> list[IdempotencyRecord]:
    """Those of them that no work in the queue follows: whoever cancelled one died before it was in doubt."""
    rows = tx.all(
        f"{_SELECT} WHERE node = ? AND epoch = ? AND state = ? AND NOT EXISTS (SELECT 1 FROM queue "
        "WHERE queue.tenant = effects.tenant AND queue.key = effects.call AND queue.kind = 'effect.follow') "
        "ORDER BY claimed_at, call LIMIT ?",
        (*NO_HOLDER, EffectState.STARTED, limit),
    )
    return [_from_row(row) for row in rows]


def mark_succeeded(
    tx: Transaction,
    effect: IdempotencyRecord,
    *,
    now: str,
    result: bytes,
    by: Resolution | None = None,
    who: str | None = None,
) -> None:
    """It has happened, and this is what came of it. Nothing is kept of that where its maker was to be forgotten since.

    Raises:
        HostError: that is settled already, or by somebody else.
    """
    more = (
        ", ended_at = ?, result = CASE WHEN principal IS NULL THEN NULL ELSE ? END, "
        "forgotten_at = CASE WHEN principal IS NULL THEN ? ELSE NULL END, "
        f"resolution = ?, resolved_by = ?, payload = {_payload_sql(by)}, context = NULL, error = NULL"
    )
    _transition(tx, effect, EffectTransition.SUCCEED, more, (now, result, now, by, who))


def mark_failed(
    tx: Transaction,
    effect: IdempotencyRecord,
    *,
    now: str,
    error: Mapping[str, Any],
    by: Resolution | None = None,
    who: str | None = None,
) -> None:
    """It has not happened.

    Raises:
        HostError: that is settled already, or by somebody else.
    """
    more = f", ended_at = ?, error = ?, resolution = ?, resolved_by = ?, payload = {_payload_sql(by)}, context = NULL"
    if effect.state is EffectState.IN_DOUBT:
        more += ", fence = fence + 1"  # whoever claims it next is above the run that made it again, see `fences.after`
    _transition(tx, effect, EffectTransition.FAIL, more, (now, orjson.dumps(error).decode(), by, who))


def mark_in_doubt(tx: Transaction, effect: IdempotencyRecord, *, error: Mapping[str, Any]) -> None:
    """Nobody knows whether it has happened.

    Raises:
        HostError: it is not under way.
    """
    _transition(tx, effect, EffectTransition.LOSE, ", error = ?", (orjson.dumps(error).decode(),))


def _payload_sql(by: Resolution | None) -> str:
    """Of what was in doubt stays what it was made with, for as long as what came of it: people ask what was decided
    about. Nothing does where its maker was to be forgotten since."""
    return "NULL" if by is None else "CASE WHEN principal IS NULL THEN NULL ELSE payload END"


def _transition(
    tx: Transaction, effect: IdempotencyRecord, move: EffectTransition, more: str, values: Sequence[Any]
) -> None:
    to = next_state(effect.state, move)
    changed = to and tx.execute(
        f"UPDATE effects SET state = ?{more} WHERE {KEY_WHERE} AND state = ? AND fence = ?",
        (to, *values, *effect.effect_key, effect.state, effect.fence),
    )
    if not changed:
        raise _stale_error(effect, move)


def _stale_error(effect: IdempotencyRecord, move: str) -> HostError:
    return HostError(
        f"the effect of call {effect.call} cannot {move} any more",
        code=STALE_CODE,
        details={"call_id": effect.call, "state": effect.state.value, "fence": effect.fence},
    )


def _from_row(row: Row) -> IdempotencyRecord:
    values = {name: value for name, value in row.items() if name not in _COMPOSITE_COLUMNS}
    for name in ("payload", "context", "error"):
        values[name] = None if row[name] is None else orjson.loads(row[name])
    values["state"] = EffectState(row["state"])
    values["resolution"] = None if row["resolution"] is None else Resolution(row["resolution"])
    of = EffectKey(cast("Tenant", row["tenant"]), row["plugin"], row["callable"], row["key"])
    return IdempotencyRecord(effect_key=of, holder=NodeRun(row["node"], row["epoch"]), **values)
