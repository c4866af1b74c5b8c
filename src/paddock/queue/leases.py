"""Leases of the hosts that share a database: functions of a unit of work, and the monitor of heartbeats.

No two clocks are compared. Each running host increments a number, its heartbeat. A host that sees the same number of
another for `LEASE_S` of its own time ends that lease. So a clock that is moved, here or elsewhere, makes no host look
dead. A lease that has ended is a deleted row: there is never disagreement about it, and a host that lost its lease
finds out at its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paddock.core.errors import HostError
from paddock.store.transaction import Transaction

LEASE_S = 60.0  # without a heartbeat, after which others take over
HEARTBEAT_INTERVAL_S = 15.0  # between two heartbeats
_MAX_OBSERVATION_GAP_S = 2 * HEARTBEAT_INTERVAL_S  # after a longer gap between observations, all counts restart


class NodeRun(NamedTuple):
    """One run of a host: its node, and an epoch that is unique among the runs of that node."""

    node: str
    epoch: int


def open_lease(tx: Transaction, node: str, *, daemon: bool) -> NodeRun:
    """Start a new epoch of this node, with a lease."""
    tx.execute(
        "INSERT INTO nodes (node, epoch) VALUES (?, 1) ON CONFLICT (node) DO UPDATE SET epoch = nodes.epoch + 1",
        (node,),
    )
    row = tx.one("SELECT epoch FROM nodes WHERE node = ?", (node,))
    assert row is not None
    run = NodeRun(node, row["epoch"])
    tx.execute("INSERT INTO node_leases (node, epoch, lasting, beat) VALUES (?, ?, ?, 0)", (*run, daemon))
    return run


def former_daemons(tx: Transaction, run: NodeRun) -> list[NodeRun]:
    """Return earlier daemons of this node that did not end their lease. Commands are excluded: they run beside it."""
    rows = tx.all("SELECT node, epoch FROM node_leases WHERE node = ? AND epoch < ? AND lasting = 1", run)
    return [NodeRun(row["node"], row["epoch"]) for row in rows]


def renew_lease(tx: Transaction, run: NodeRun) -> bool:
    """Increment the heartbeat of this run; False if its lease was ended."""
    return bool(tx.execute("UPDATE node_leases SET beat = beat + 1 WHERE node = ? AND epoch = ?", run))


def end_lease(tx: Transaction, run: NodeRun) -> bool:
    """End a lease; False if it had ended already."""
    return bool(tx.execute("DELETE FROM node_leases WHERE node = ? AND epoch = ?", run))


def end_expired(tx: Transaction, run: NodeRun, heartbeat_seen: int) -> bool:
    """End the lease of a silent run; False if it sent a heartbeat since, or its lease was ended already."""
    return bool(tx.execute("DELETE FROM node_leases WHERE node = ? AND epoch = ? AND beat = ?", (*run, heartbeat_seen)))


def has_lease(tx: Transaction, node: str, epoch: int) -> bool:
    """Whether this run still has its lease, and so still owns what it holds."""
    return tx.one("SELECT 1 AS found FROM node_leases WHERE node = ? AND epoch = ?", (node, epoch)) is not None


def require_lease(tx: Transaction, run: NodeRun) -> None:
    """Require that this run still has its lease; for a unit of work that claims something in its name.

    Raises:
        HostError: `node.lost`, when others took it for dead.
    """
    if not has_lease(tx, *run):
        raise HostError(
            f"others took this node for dead (epoch {run.epoch})",
            code="node.lost",
            hint="try again: it goes on under another epoch within seconds",
        )


def read_heartbeats(tx: Transaction) -> dict[NodeRun, int]:
    """Return all runs with a lease, and the heartbeat of each."""
    rows = tx.all("SELECT node, epoch, beat FROM node_leases")
    return {NodeRun(row["node"], row["epoch"]): row["beat"] for row in rows}


class LeaseMonitor:
    """Observes the heartbeats of other runs.

    A gap in which it could not observe does not count as silence: while the database is away, no run can send a
    heartbeat.
    """

    def __init__(self) -> None:
        self._seen: dict[NodeRun, tuple[int, float]] = {}
        self._observed_at: float | None = None

    def find_expired(
        self, heartbeats: Mapping[NodeRun, int], monotonic: float, *, excluded: Iterable[NodeRun] = ()
    ) -> dict[NodeRun, int]:
        """Return the runs whose heartbeat has not changed for a whole lease, and that heartbeat.

        Args:
            heartbeats: The current heartbeats.
            monotonic: The time on a monotonic clock.
            excluded: Runs that never count as silent: the caller's own.
        """
        after_gap = self._observed_at is not None and monotonic - self._observed_at > _MAX_OBSERVATION_GAP_S
        before, self._seen, self._observed_at = {} if after_gap else self._seen, {}, monotonic
        for run, heartbeat in heartbeats.items():
            last = before.get(run)
            self._seen[run] = last if last is not None and last[0] == heartbeat else (heartbeat, monotonic)
        excluded_runs = set(excluded)
        return {
            run: heartbeat
            for run, (heartbeat, since) in self._seen.items()
            if monotonic - since >= LEASE_S and run not in excluded_runs
        }
