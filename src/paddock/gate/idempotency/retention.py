"""Retention of effect results: expiry, plugin uninstallation and erasure of people, within a transaction.

The row of a key that a caller chose remains without its content, so that the effect is not repeated by mistake. A call
without such a key uses its own id as the key. No caller can repeat it, so its whole row is deleted.
"""

from __future__ import annotations

from collections.abc import Collection

import orjson

from paddock.core.clock import Clock, Random
from paddock.core.events.calls import EffectInDoubt
from paddock.core.ids import CallId, Tenant
from paddock.gate.idempotency.records import KEY_WHERE, NO_HOLDER, UNFINISHED
from paddock.gate.idempotency.states import FINAL_STATES, EffectState, EffectTransition, next_state
from paddock.ledger.write.append import record_all
from paddock.store.transaction import Transaction

_FINAL = tuple(state.value for state in FINAL_STATES)
_OWN_KEY_SQL = "key = call"  # of a call without a key from its caller
_ORPHANED_SQL = (
    f"state = ? AND {UNFINISHED} AND claimed_at < ? AND NOT EXISTS ("  # noqa: S608
    "SELECT 1 FROM approvals WHERE approvals.tenant = effects.tenant AND approvals.call = effects.call "
    "AND approvals.state IN ('pending', 'approved'))"
)
_UNFINISHED = (EffectState.STARTED.value, EffectState.IN_DOUBT.value)
_UNINSTALLED_ERROR = {"code": "plugin.uninstalled", "message": "its plugin was uninstalled"}


def expire_results(tx: Transaction, *, before: str, now: str, limit: int = 1000) -> int:
    """Clear results of effects that ended before a time, and release keys whose approval request is no longer open.

    Returns the number of expired effects; none are left once it is below `limit`.
    """
    rows = tx.all(
        "SELECT tenant, plugin, callable, key, call FROM effects WHERE forgotten_at IS NULL AND ended_at < ? "
        "ORDER BY ended_at LIMIT ?",
        (before, limit),
    )
    for row in rows:
        key_values = (row["tenant"], row["plugin"], row["callable"], row["key"])
        if row["key"] == row["call"]:
            tx.execute(f"DELETE FROM effects WHERE {KEY_WHERE}", key_values)  # noqa: S608 - only our own constants
        else:
            tx.execute(
                "UPDATE effects SET result = NULL, error = NULL, payload = NULL, principal = NULL, "  # noqa: S608
                f"resolved_by = NULL, forgotten_at = ? WHERE {KEY_WHERE}",
                (now, *key_values),
            )
    # These calls will never run: their approval request was denied, withdrawn or has expired.
    tx.execute(f"DELETE FROM effects WHERE {_ORPHANED_SQL} AND fence = 1", (EffectState.AWAITING_APPROVAL, before))  # noqa: S608
    tx.execute(
        f"UPDATE effects SET state = ?, ended_at = claimed_at WHERE {_ORPHANED_SQL}",  # noqa: S608
        (EffectState.FAILED_NO_EFFECT, EffectState.AWAITING_APPROVAL, before),
    )
    return len(rows)


def erase_plugin(tx: Transaction, plugin: str, clock: Clock, random: Random) -> None:
    """Erase payloads and results of all calls of an uninstalled plugin, for every tenant.

    Effects in doubt stay so until a person resolves them, since no host can recover them. Effects that the
    plugin was still working on become in doubt, since it can no longer be polled. `clock` and `random` are for the
    ledger entries of these.
    """
    now = clock.now().isoformat()
    tx.execute(f"DELETE FROM effects WHERE plugin = ? AND state IN (?, ?) AND {_OWN_KEY_SQL}", (plugin, *_FINAL))  # noqa: S608
    tx.execute(
        "UPDATE effects SET result = NULL, error = NULL, payload = NULL, forgotten_at = ? "
        "WHERE plugin = ? AND state IN (?, ?) AND forgotten_at IS NULL",
        (now, plugin, *_FINAL),
    )
    lost_rows = tx.all(
        f"UPDATE effects SET state = ? WHERE plugin = ? AND state = ? AND {UNFINISHED} AND node = ? AND epoch = ? "  # noqa: S608
        "RETURNING tenant, callable, call",
        (next_state(EffectState.STARTED, EffectTransition.LOSE), plugin, EffectState.STARTED, *NO_HOLDER),
    )
    if lost_rows:
        events = [
            (
                Tenant(row["tenant"]),
                CallId(row["call"]),
                EffectInDoubt(plugin, row["callable"], _UNINSTALLED_ERROR["message"], "none"),
            )
            for row in lost_rows
        ]
        record_all(tx, clock, random, events)
    tx.execute(
        "DELETE FROM queue WHERE EXISTS (SELECT 1 FROM effects WHERE effects.tenant = queue.tenant "
        "AND effects.call = queue.key AND effects.plugin = ? AND effects.state IN (?, ?))",
        (plugin, *_UNFINISHED),
    )
    tx.execute(
        "UPDATE effects SET payload = NULL, context = NULL, recovery = 'none', error = ? "
        "WHERE plugin = ? AND state IN (?, ?)",
        (orjson.dumps(_UNINSTALLED_ERROR).decode(), plugin, *_UNFINISHED),
    )


def erase_people(tx: Transaction, tenant: str, names: Collection[str], now: str) -> int:
    """Erase the principal, payload and result of effects of people who are to be forgotten; return the cleared rows.

    It stays known that a key was used. Effects in progress or in doubt keep their payload until they are over, since
    their outcome could not be recovered without it.
    """
    cleared = 0
    for name in names:
        cleared += tx.execute(
            f"DELETE FROM effects WHERE tenant = ? AND principal = ? AND state IN (?, ?) AND {_OWN_KEY_SQL}",  # noqa: S608
            (tenant, name, *_FINAL),
        )
        cleared += tx.execute(
            "UPDATE effects SET principal = NULL, result = NULL, error = NULL, payload = NULL, forgotten_at = ? "
            "WHERE tenant = ? AND principal = ? AND state IN (?, ?)",
            (now, tenant, name, *_FINAL),
        )
        cleared += tx.execute(
            "UPDATE effects SET principal = NULL WHERE tenant = ? AND principal = ?",
            (tenant, name),
        )
        cleared += tx.execute(
            "UPDATE effects SET resolved_by = NULL WHERE tenant = ? AND resolved_by = ?",
            (tenant, name),
        )
    return cleared
