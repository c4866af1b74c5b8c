"""Leases of the hosts that share a database: functions of a unit of work.

A lease is a row, and over when the row is deleted: there is never disagreement about it, and a host that lost its lease
finds out at its next heartbeat. What ends a lease differs. On PostgreSQL each run is registered with the job engine, as
one of its workers; it sends the engine's heartbeat, and is pruned by the engine without one. On the embedded engine no
host waits for another's silence: the lock file of a run tells its home that it is over; see `run_locks.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from paddock.core.errors import HostError
from paddock.store.transaction import Transaction

LEASE_S = 25.0  # without a heartbeat, after which others take over
HEARTBEAT_INTERVAL_S = 5.0  # between two heartbeats


class NodeRun(NamedTuple):
    """One run of a host: its node, and an epoch that is unique among the runs of that node."""

    node: str
    epoch: int


def open_lease(tx: Transaction, node: str, *, daemon: bool) -> NodeRun:
    """Start a new epoch of this node, with a lease."""
    run = NodeRun(node, _next_epoch(tx, node))
    tx.execute("INSERT INTO node_leases (node, epoch, lasting) VALUES (?, ?, ?)", (*run, daemon))
    return run


def _next_epoch(tx: Transaction, node: str) -> int:
    if tx.engine == "postgresql":
        row = tx.one("SELECT worker_id AS epoch FROM procrastinate_register_worker_v1()")
    else:
        tx.execute(
            "INSERT INTO nodes (node, epoch) VALUES (?, 1) ON CONFLICT (node) DO UPDATE SET epoch = nodes.epoch + 1",
            (node,),
        )
        row = tx.one("SELECT epoch FROM nodes WHERE node = ?", (node,))
    assert row is not None
    return row["epoch"]


def former_daemons(tx: Transaction, run: NodeRun) -> list[NodeRun]:
    """Return earlier daemons of this node that did not end their lease. Commands are excluded: they run beside it."""
    rows = tx.all("SELECT node, epoch FROM node_leases WHERE node = ? AND epoch < ? AND lasting = 1", run)
    return [NodeRun(row["node"], row["epoch"]) for row in rows]


def renew_lease(tx: Transaction, run: NodeRun) -> bool:
    """Send the heartbeat of this run; False if its lease was ended, or is about to be."""
    if tx.engine == "postgresql" and not tx.all(
        "SELECT procrastinate_update_heartbeat_v1(id) FROM procrastinate_workers WHERE id = ?", (run.epoch,)
    ):
        return False
    return has_lease(tx, *run)


def end_lease(tx: Transaction, run: NodeRun) -> bool:
    """End a lease; False if it had ended already. The caller then releases what the run held."""
    ended = bool(tx.execute("DELETE FROM node_leases WHERE node = ? AND epoch = ?", run))
    if ended and tx.engine == "postgresql":
        tx.all("SELECT procrastinate_unregister_worker_v1(?)", (run.epoch,))
    return ended


def end_silent(tx: Transaction) -> list[NodeRun]:
    """End the leases of the runs that sent no heartbeat for `LEASE_S`, on PostgreSQL; returns these runs.

    The engine's clock is the server's. It prunes its workers; a lease without its worker is over, whoever pruned it.
    """
    if tx.engine != "postgresql":
        return []
    tx.all("SELECT worker_id FROM procrastinate_prune_stalled_workers_v1(?)", (LEASE_S,))
    rows = tx.all(
        "SELECT node, epoch FROM node_leases "
        "WHERE NOT EXISTS (SELECT 1 FROM procrastinate_workers WHERE procrastinate_workers.id = node_leases.epoch)"
    )
    return [run for row in rows if end_lease(tx, run := NodeRun(row["node"], row["epoch"]))]


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


def list_runs(tx: Transaction) -> set[NodeRun]:
    """Return all runs with a lease."""
    return {NodeRun(row["node"], row["epoch"]) for row in tx.all("SELECT node, epoch FROM node_leases")}
