"""Letting go of what came of effects: after its time, with its plugin, or for a person. Functions of a unit of work.

What remains under a key that a caller gave is that it stood for something, so that nobody does it again by mistake. A
call without such a key stands for itself: nobody can come with it, and nothing of it remains.
"""

from __future__ import annotations

from collections.abc import Collection

import orjson

from paddock.core.clock import Clock, Random
from paddock.core.events.calls import EffectInDoubt
from paddock.core.ids import CallId, Tenant
from paddock.gate.idempotency.records import KEY_WHERE, NO_HOLDER
from paddock.gate.idempotency.states import FINAL_STATES, EffectState, EffectTransition, next_state
from paddock.ledger.write.append import record_all
from paddock.store.transaction import Transaction

_FINAL = tuple(state.value for state in FINAL_STATES)
_OWN_KEY_SQL = "key = call"  # of a call that was given no key
_ORPHANED_SQL = (
    "state = ? AND claimed_at < ? AND NOT EXISTS (SELECT 1 FROM approvals WHERE approvals.tenant = effects.tenant "
    "AND approvals.call = effects.call AND approvals.state IN ('pending', 'approved'))"
)
_UNFINISHED = (EffectState.STARTED.value, EffectState.IN_DOUBT.value)
_UNINSTALLED_ERROR = {"code": "plugin.uninstalled", "message": "its plugin was uninstalled"}


def expire_results(tx: Transaction, *, before: str, now: str, limit: int = 1000) -> int:
    """Let go of what came of effects that ended before then, and of keys that wait for nobody any more.

    How many there were; none are left once this gives fewer than `limit`.
    """
    rows = tx.all(
        "SELECT tenant, plugin, callable, key, call FROM effects WHERE forgotten_at IS NULL AND ended_at < ? "
        "ORDER BY ended_at LIMIT ?",
        (before, limit),
    )
    for row in rows:
        of = (row["tenant"], row["plugin"], row["callable"], row["key"])
        if row["key"] == row["call"]:
            tx.execute(f"DELETE FROM effects WHERE {KEY_WHERE}", of)  # noqa: S608 - names of our own
        else:
            tx.execute(
                "UPDATE effects SET result = NULL, error = NULL, payload = NULL, principal = NULL, "  # noqa: S608
                f"resolved_by = NULL, forgotten_at = ? WHERE {KEY_WHERE}",
                (now, *of),
            )
    # Nobody comes back for those: their request was denied, withdrawn or has expired.
    tx.execute(f"DELETE FROM effects WHERE {_ORPHANED_SQL} AND fence = 1", (EffectState.AWAITING_APPROVAL, before))  # noqa: S608
    tx.execute(
        f"UPDATE effects SET state = ?, ended_at = claimed_at WHERE {_ORPHANED_SQL}",  # noqa: S608
        (EffectState.FAILED_NO_EFFECT, EffectState.AWAITING_APPROVAL, before),
    )
    return len(rows)


def erase_plugin(tx: Transaction, plugin: str, clock: Clock, random: Random) -> None:
    """A plugin is uninstalled: let go of all that its calls were made with and gave, for every tenant.

    What is in doubt stays so until a person says what became of it; nobody else can find out any more. So it is with
    what the plugin was still at work on, which nobody can ask it about. `clock` and `random` are for the entries that
    tell of these.
    """
    now = clock.now().isoformat()
    tx.execute(f"DELETE FROM effects WHERE plugin = ? AND state IN (?, ?) AND {_OWN_KEY_SQL}", (plugin, *_FINAL))  # noqa: S608
    tx.execute(
        "UPDATE effects SET result = NULL, error = NULL, payload = NULL, forgotten_at = ? "
        "WHERE plugin = ? AND state IN (?, ?) AND forgotten_at IS NULL",
        (now, plugin, *_FINAL),
    )
    lost = tx.all(
        "UPDATE effects SET state = ? WHERE plugin = ? AND state = ? AND node = ? AND epoch = ? "
        "RETURNING tenant, callable, call",
        (next_state(EffectState.STARTED, EffectTransition.LOSE), plugin, EffectState.STARTED, *NO_HOLDER),
    )
    if lost:
        events = [
            (
                Tenant(row["tenant"]),
                CallId(row["call"]),
                EffectInDoubt(plugin, row["callable"], _UNINSTALLED_ERROR["message"], "none"),
            )
            for row in lost
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
    """Let go of who made effects, and of what they were made with and gave, for whoever wants nothing known of them.

    That a key stood for something stays known. What is under way or in doubt keeps what it was made with until it is
    over, since nobody could find out what became of it otherwise. How many rows were cleared.
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
