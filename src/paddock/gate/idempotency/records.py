"""Idempotency records, one row for each key: lookups and state transitions within a transaction.

Every update names the state and the fence that it expects. If the row has another state or fence, somebody else changed
it first, and the update changes nothing.
"""

# ruff: noqa: S608 - only constants of this module are put into SQL; every value is bound

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import orjson
from msgspec import Struct
from msgspec.structs import replace

from paddock.core.errors import HostError
from paddock.core.ids import CallId, Tenant
from paddock.gate.idempotency.key_verdict import KeyRecord
from paddock.gate.idempotency.states import EffectState, EffectTransition, Resolution, next_state
from paddock.queue.leases import NodeRun
from paddock.store.transaction import Row, Transaction

RECOVER_JOB = "effect.recover"
"""Queue job kind that recovers an effect in doubt."""

POLL_JOB = "effect.follow"
"""Queue job kind that polls the operator of a parked effect."""

STALE_CODE = "effect.stale"
"""Error code for an update that comes too late: the record has changed meanwhile."""

NO_HOLDER = NodeRun("", 0)
"""Holder of a parked effect, whose operator is still working: no host holds it, any host may follow its queue job."""


class EffectKey(NamedTuple):
    """Identifies an effect: the same key used for two callables identifies two effects."""

    tenant: Tenant
    plugin: str
    callable: str
    key: str


class StoredCall(NamedTuple):
    """Payload and context of a call as JSON, kept to recover its outcome."""

    payload: str
    context: str


class IdempotencyRecord(Struct, frozen=True):
    """One stored effect: its key, state, fence, holder and outcome."""

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
        """Whether its operator is still working on it while no host holds it."""
        return self.state is EffectState.STARTED and self.holder == NO_HOLDER

    @property
    def key_record(self) -> KeyRecord:
        return KeyRecord(self.state, self.payload_hash, self.forgotten_at is not None, self.principal)


_COLUMNS = (
    "tenant, plugin, callable, key, call, state, fence, payload_hash, node, epoch, recovery, claimed_at, started_at, "
    "ended_at, principal, payload, context, result, error, resolution, resolved_by, forgotten_at"
)
SELECT_RECORD = f"SELECT {_COLUMNS} FROM effects"
UNFINISHED = f"state NOT IN ('{EffectState.SUCCEEDED}', '{EffectState.FAILED_NO_EFFECT}')"
"""Of effects that are not over. SQLite uses their index only for statements that say so in the words of the index."""

KEY_WHERE = "tenant = ? AND plugin = ? AND callable = ? AND key = ?"  # an `EffectKey`
_COMPOSITE_COLUMNS = frozenset(EffectKey._fields + NodeRun._fields)


def find(tx: Transaction, effect_key: EffectKey) -> IdempotencyRecord | None:
    """Find the record of a key."""
    row = tx.one(f"{SELECT_RECORD} WHERE {KEY_WHERE}", effect_key)
    return None if row is None else record_from_row(row)


def find_by_call(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord | None:
    """Find the record of a call."""
    row = tx.one(f"{SELECT_RECORD} WHERE tenant = ? AND call = ?", (tenant, call))
    return None if row is None else record_from_row(row)


def mark_in_doubt_for(tx: Transaction, holder: NodeRun, *, error: Mapping[str, Any]) -> list[IdempotencyRecord]:
    """Mark all effects as in doubt that an ended run of a host had started; return them, oldest first.

    One statement for all of them: there may be thousands.
    """
    rows = tx.all(
        f"UPDATE effects SET state = ?, error = ? WHERE node = ? AND epoch = ? AND state = ? AND {UNFINISHED} "
        f"RETURNING {_COLUMNS}",
        (
            next_state(EffectState.STARTED, EffectTransition.LOSE),
            orjson.dumps(error).decode(),
            *holder,
            EffectState.STARTED,
        ),
    )
    return sorted((record_from_row(row) for row in rows), key=lambda effect: (effect.claimed_at, effect.call))


def claim(
    tx: Transaction,
    effect_key: EffectKey,
    *,
    call: CallId,
    payload_hash: str,
    holder: NodeRun,
    recovery: str,
    now: str,
    principal: str | None,
    stored_call: StoredCall | None = None,
) -> IdempotencyRecord | None:
    """Claim a key that is free, or under which the same call of this principal had no effect; None if it is taken.

    The fence is higher than any that the key had before, so messages sent under an earlier fence are stale. If the key
    was never used and `stored_call` is given, the call is inserted as started. Nearly all calls take this path, which
    costs one statement.
    """
    state, fence, start_values = (
        (EffectState.FAILED_NO_EFFECT, 0, (None,) * 3)
        if stored_call is None
        else (EffectState.STARTED, 1, (now, *stored_call))
    )
    inserted = tx.execute(
        "INSERT INTO effects (tenant, plugin, callable, key, call, state, fence, payload_hash, node, epoch, recovery, "
        "claimed_at, principal, started_at, payload, context) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*effect_key, call, state.value, fence, payload_hash, *holder, recovery, now, principal, *start_values),
    )
    if inserted and stored_call is not None:
        return IdempotencyRecord(
            effect_key, call, state, fence, payload_hash, holder, recovery, now, now, None, principal
        )
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
            *effect_key,
            EffectState.FAILED_NO_EFFECT,
            payload_hash,
            principal,
        ),
    )
    return find(tx, effect_key) if changed else None


def release_claim(tx: Transaction, effect: IdempotencyRecord) -> bool:
    """Release the key of a call that waited for approval and will not run."""
    # Match the call too: a key that was released earlier can be claimed again under the same fence.
    where = f"{KEY_WHERE} AND call = ? AND fence = ? AND state = ?"
    where_values = (*effect.effect_key, effect.call, effect.fence, EffectState.AWAITING_APPROVAL)
    if effect.fence == 1:  # the key was never used before, so no trace has to remain
        return bool(tx.execute(f"DELETE FROM effects WHERE {where}", where_values))
    return bool(
        tx.execute(f"UPDATE effects SET state = ? WHERE {where}", (EffectState.FAILED_NO_EFFECT, *where_values))
    )


def mark_awaiting_approval(tx: Transaction, effect: IdempotencyRecord) -> None:
    """Mark a claimed effect as waiting for a person's approval.

    Raises:
        HostError: its state does not allow that.
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
    """Mark an effect as started by this host, which need not be the host that held it before.

    Payload and context are kept until the call is over, to recover its outcome. The payload hash of the key stays that
    of the caller's request, even if the approver changed the payload.

    Raises:
        HostError: it cannot start in its state: somebody else was faster.
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
    """Encode the payload and the context of a call that starts."""
    return StoredCall(orjson.dumps(payload).decode(), orjson.dumps(context).decode())


def park(tx: Transaction, effect: IdempotencyRecord, *, context: Mapping[str, Any]) -> None:
    """Park a started effect whose operator is still working: no host holds it, so none that ends puts it in doubt.

    Raises:
        HostError: it is no longer in progress.
    """
    changed = tx.execute(
        f"UPDATE effects SET node = ?, epoch = ?, context = ? WHERE {KEY_WHERE} AND state = ? AND fence = ?",
        (*NO_HOLDER, orjson.dumps(context).decode(), *effect.effect_key, EffectState.STARTED, effect.fence),
    )
    if not changed:
        raise _stale_error(effect, "go on")


def store_progress(tx: Transaction, effect: IdempotencyRecord, *, context: Mapping[str, Any]) -> None:
    """Store the progress of an operator that works on an effect in doubt; it stays in doubt and is polled again.

    Raises:
        HostError: it is no longer in doubt, or another run has taken it over.
    """
    changed = tx.execute(
        f"UPDATE effects SET context = ? WHERE {KEY_WHERE} AND state = ? AND fence = ?",
        (orjson.dumps(context).decode(), *effect.effect_key, EffectState.IN_DOUBT, effect.fence),
    )
    if not changed:
        raise _stale_error(effect, "go on")


def raise_fence(tx: Transaction, effect: IdempotencyRecord) -> IdempotencyRecord:
    """Raise the fence for the next run of a call: messages sent under the current fence become stale.

    Raises:
        HostError: another run has taken it over, or its state has changed.
    """
    changed = tx.execute(
        f"UPDATE effects SET fence = fence + 1 WHERE {KEY_WHERE} AND state = ? AND fence = ?",
        (*effect.effect_key, effect.state, effect.fence),
    )
    if not changed:
        raise _stale_error(effect, "go on")
    return replace(effect, fence=effect.fence + 1)


def mark_succeeded(
    tx: Transaction,
    effect: IdempotencyRecord,
    *,
    now: str,
    result: bytes,
    resolution: Resolution | None = None,
    resolved_by: str | None = None,
) -> None:
    """Mark an effect as succeeded and store its result; no result is stored if its principal was erased meanwhile.

    Raises:
        HostError: it is settled already, or another run has taken it over.
    """
    assignments = (
        ", ended_at = ?, result = CASE WHEN principal IS NULL THEN NULL ELSE ? END, "
        "forgotten_at = CASE WHEN principal IS NULL THEN ? ELSE NULL END, "
        f"resolution = ?, resolved_by = ?, payload = {_payload_sql(resolution)}, context = NULL, error = NULL"
    )
    _transition(tx, effect, EffectTransition.SUCCEED, assignments, (now, result, now, resolution, resolved_by))


def mark_failed(
    tx: Transaction,
    effect: IdempotencyRecord,
    *,
    now: str,
    error: Mapping[str, Any],
    resolution: Resolution | None = None,
    resolved_by: str | None = None,
) -> None:
    """Mark an effect as failed: it has not happened.

    Raises:
        HostError: it is settled already, or another run has taken it over.
    """
    assignments = (
        ", ended_at = ?, error = ?, resolution = ?, resolved_by = ?, "
        f"payload = {_payload_sql(resolution)}, context = NULL"
    )
    if effect.state is EffectState.IN_DOUBT:
        # The next claim has to be above the recovery run, see `fencing.next_fence`.
        assignments += ", fence = fence + 1"
    _transition(
        tx, effect, EffectTransition.FAIL, assignments, (now, orjson.dumps(error).decode(), resolution, resolved_by)
    )


def mark_in_doubt(tx: Transaction, effect: IdempotencyRecord, *, error: Mapping[str, Any]) -> None:
    """Mark a started effect as in doubt: its outcome is unknown.

    Raises:
        HostError: it is not in progress.
    """
    _transition(tx, effect, EffectTransition.LOSE, ", error = ?", (orjson.dumps(error).decode(),))


def _payload_sql(resolution: Resolution | None) -> str:
    """Return the SQL for the payload of a settled effect.

    The payload of an effect that was in doubt is kept as long as its result, since people ask what was decided about.
    It is dropped if the principal was erased meanwhile.
    """
    return "NULL" if resolution is None else "CASE WHEN principal IS NULL THEN NULL ELSE payload END"


def _transition(
    tx: Transaction, effect: IdempotencyRecord, transition: EffectTransition, assignments: str, values: Sequence[Any]
) -> None:
    new_state = next_state(effect.state, transition)
    changed = new_state and tx.execute(
        f"UPDATE effects SET state = ?{assignments} WHERE {KEY_WHERE} AND state = ? AND fence = ?",
        (new_state.value, *values, *effect.effect_key, effect.state.value, effect.fence),
    )
    if not changed:
        raise _stale_error(effect, transition)


def _stale_error(effect: IdempotencyRecord, action: str) -> HostError:
    return HostError(
        f"the effect of call {effect.call} changed concurrently; it cannot {action} in state {effect.state.value}",
        code=STALE_CODE,
        details={"call_id": effect.call, "state": effect.state.value, "fence": effect.fence},
    )


def record_from_row(row: Row) -> IdempotencyRecord:
    values = {name: value for name, value in row.items() if name not in _COMPOSITE_COLUMNS}
    for name in ("payload", "context", "error"):
        values[name] = None if row[name] is None else orjson.loads(row[name])
    values["state"] = EffectState(row["state"])
    values["resolution"] = None if row["resolution"] is None else Resolution(row["resolution"])
    effect_key = EffectKey(cast("Tenant", row["tenant"]), row["plugin"], row["callable"], row["key"])
    return IdempotencyRecord(effect_key=effect_key, holder=NodeRun(row["node"], row["epoch"]), **values)
