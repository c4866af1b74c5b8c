"""Who works on this database: functions of a unit of work over the rows of those that run, and the watch over them.

No two clocks are compared. Each that runs raises a number, its beat; whoever sees the same number for a whole
`LEASE` of their own time ends the lease. So a clock that is moved, here or elsewhere, makes nobody look dead.
Being over is a row that is gone: it is never a matter of opinion, and whoever lost their lease finds out at the
next beat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paddock.core.errors import HostError
from paddock.store.transaction import Transaction

LEASE_S = 60.0  # seconds without a beat after which others take over
HEARTBEAT_INTERVAL_S = 15.0  # seconds between two beats
_MAX_OBSERVATION_GAP_S = (
    2 * HEARTBEAT_INTERVAL_S
)  # seconds between two looks after which all of them count from the later one


class NodeRun(NamedTuple):
    """One run of a host: its node, and an epoch that no other run of that node has or had."""

    node: str
    epoch: int


def open_lease(tx: Transaction, node: str, *, lasting: bool) -> NodeRun:
    """A new epoch for this node, with a lease."""
    tx.execute(
        "INSERT INTO nodes (node, epoch) VALUES (?, 1) ON CONFLICT (node) DO UPDATE SET epoch = nodes.epoch + 1",
        (node,),
    )
    row = tx.one("SELECT epoch FROM nodes WHERE node = ?", (node,))
    assert row is not None
    here = NodeRun(node, row["epoch"])
    tx.execute("INSERT INTO node_leases (node, epoch, lasting, beat) VALUES (?, ?, ?, 0)", (*here, lasting))
    return here


def former_daemons(tx: Transaction, here: NodeRun) -> list[NodeRun]:
    """The daemons of this node that ran before this one and said no farewell. Commands are none: they run beside it."""
    rows = tx.all("SELECT node, epoch FROM node_leases WHERE node = ? AND epoch < ? AND lasting = 1", here)
    return [NodeRun(row["node"], row["epoch"]) for row in rows]


def renew_lease(tx: Transaction, here: NodeRun) -> bool:
    """Say that this one still runs; False when its lease was ended."""
    return bool(tx.execute("UPDATE node_leases SET beat = beat + 1 WHERE node = ? AND epoch = ?", here))


def end_lease(tx: Transaction, here: NodeRun) -> bool:
    """End a lease; False when it had ended."""
    return bool(tx.execute("DELETE FROM node_leases WHERE node = ? AND epoch = ?", here))


def end_expired(tx: Transaction, here: NodeRun, beat_seen: int) -> bool:
    """End the lease of one that has been silent; False when it spoke since, or somebody else ended it."""
    return bool(tx.execute("DELETE FROM node_leases WHERE node = ? AND epoch = ? AND beat = ?", (*here, beat_seen)))


def has_lease(tx: Transaction, node: str, epoch: int) -> bool:
    """Whether this run still has its lease: what it holds is its own."""
    return tx.one("SELECT 1 AS found FROM node_leases WHERE node = ? AND epoch = ?", (node, epoch)) is not None


def require_lease(tx: Transaction, here: NodeRun) -> None:
    """Go on only while this run still has its lease; for the unit of work that takes something in its name.

    Raises:
        HostError: `node.lost`, when others took it for dead.
    """
    if not has_lease(tx, *here):
        raise HostError(
            f"others took this node for dead (epoch {here.epoch})",
            code="node.lost",
            hint="try again: it goes on under another epoch within seconds",
        )


def read_heartbeats(tx: Transaction) -> dict[NodeRun, int]:
    """All that have a lease, and the beat of each."""
    rows = tx.all("SELECT node, epoch, beat FROM node_leases")
    return {NodeRun(row["node"], row["epoch"]): row["beat"] for row in rows}


class LeaseMonitor:
    """What one of them has seen of the others.

    Time in which it could not look is nobody's silence: while the database is away no one can beat.
    """

    def __init__(self) -> None:
        self._seen: dict[NodeRun, tuple[int, float]] = {}
        self._looked: float | None = None

    def find_expired(self, now: Mapping[NodeRun, int], at: float, *, but: Iterable[NodeRun] = ()) -> dict[NodeRun, int]:
        """Those whose beat has stood still for a whole lease, and that beat.

        Args:
            now: The beats as they are.
            at: The time on a clock that only ever grows.
            but: Those that are never silent: oneself.
        """
        blind = self._looked is not None and at - self._looked > _MAX_OBSERVATION_GAP_S
        before, self._seen, self._looked = {} if blind else self._seen, {}, at
        for here, number in now.items():
            last = before.get(here)
            self._seen[here] = last if last is not None and last[0] == number else (number, at)
        spared = set(but)
        return {
            here: number for here, (number, since) in self._seen.items() if at - since >= LEASE_S and here not in spared
        }
