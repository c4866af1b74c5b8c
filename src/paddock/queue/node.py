"""This host among all that share a database: its node id, its epoch, and the lease that it renews.

A record of ongoing work contains its `NodeRun`, and the same unit of work checks with `leases.require_lease` that the
lease still holds. When a host dies its lease is ended: as soon as another host of its home checks (a daemon at its
start and each second, a command when it opens), or else, on PostgreSQL, by a daemon of any home after `LEASE_S` without
a heartbeat. In that unit of work the callbacks given to `Node.subscribe` release what it held.

A host that cannot renew its lease does not wait until others tell it. Where another host could take it for dead, it
starts nothing more and stops what it does, one heartbeat interval before the others may take over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, PaddockError
from paddock.core.ids import new_id
from paddock.queue import leases, queue
from paddock.queue.leases import HEARTBEAT_INTERVAL_S, LEASE_S, NodeRun
from paddock.queue.run_locks import RunLocks
from paddock.store.database import Database
from paddock.store.filesystem import create_private_file, sync_directory
from paddock.store.transaction import Transaction

_NODE_ID = re.compile(rb"node_[0-9a-z]{26}\n?")


def node_file(state: Path) -> Path:
    return state / "node"


def load_or_create_node_id(state: Path, clock: Clock, random: Random) -> str:
    """Return the node id of this home, created if it has none. Concurrent creators get the same id.

    Raises:
        HostError: `node.id`, when it cannot be read or created, or others may change it.
    """
    file = node_file(state)
    try:
        if not file.exists():
            _create_node_file(file, new_id("node", clock, random))
        with file.open("rb") as opened:
            mode, content = os.fstat(opened.fileno()).st_mode, opened.read(64)
    except OSError as error:
        raise _node_id_error(file, error.strerror or str(error), f"ls -l {file.parent}") from error
    if mode & 0o077:
        raise _node_id_error(file, "others can reach it", f"chmod 600 {file}")
    if not _NODE_ID.fullmatch(content):
        raise _node_id_error(file, "it holds something else", f"rm {file}   # this home is then another node")
    return content.decode().strip()


def _create_node_file(file: Path, node_id: str) -> None:
    draft = file.with_name(f"{file.name}-{node_id}")
    try:
        create_private_file(draft, f"{node_id}\n".encode())
        try:
            os.link(draft, file)  # unlike a rename, it never replaces an existing file
        except FileExistsError:
            return
        sync_directory(file.parent)
    finally:
        draft.unlink(missing_ok=True)


def _node_id_error(file: Path, reason: str, hint: str) -> HostError:
    return HostError(f"the name of this node in {file} cannot be used: {reason}", code="node.id", hint=hint)


__all__ = ["Node", "NodeRun", "open_node"]

_log = logging.getLogger("paddock.queue")

HOME_CHECK_INTERVAL_S = 1.0  # between two looks for dead runs of this home
_LEAVE_TIMEOUT_S = 5
_MAX_HEARTBEAT_GAP_S = LEASE_S / 2  # after a longer gap between heartbeats, nobody else's silence counts


class Node:
    """This host as a member of the cluster.

    A daemon has an epoch from the start. A command gets one on first use, so that a command which only reads writes
    nothing.

    Args:
        name: The node id of this home, see `load_or_create_node_id`.
        database: The shared database.
        clock: Its monotonic time tells whether heartbeats came through without a gap.
        daemon: Whether this is a daemon, which ends the leases of its predecessors and of silent runs.
        run_locks: Knows which runs of this home are dead; without it only their silence tells.
    """

    def __init__(
        self, name: str, database: Database, clock: Clock, *, daemon: bool, run_locks: RunLocks | None = None
    ) -> None:
        self.name = name
        self._on_lease_ended: list[Callable[[Transaction, NodeRun], object]] = [queue.release_held_by]
        self._after_lease_ended: list[Callable[[], None]] = []
        self._on_lease_lost: list[Callable[[], None]] = []
        self.lease_at_risk = False  # whether others may take this host for dead: it then claims nothing new
        self._database = database
        self._clock = clock
        self._is_daemon = daemon
        self._run_locks = run_locks
        self._run: NodeRun | None = None
        self._renewed_at: float | None = None
        self._renewing_since = 0.0  # without a gap
        self._entering = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._risk_timer: asyncio.TimerHandle | None = None

    def subscribe(
        self,
        *,
        on_lease_ended: Callable[[Transaction, NodeRun], object] | None = None,
        after_lease_ended: Callable[[], None] | None = None,
        on_lease_lost: Callable[[], None] | None = None,
    ) -> None:
        """Be told of leases that end.

        Args:
            on_lease_ended: Releases what a run held, in the transaction that ends its lease. Has to be known before
                the first `current_run()`: that is when a daemon ends the leases of its predecessors.
            after_lease_ended: Called after such transactions.
            on_lease_lost: Called when others ended our own lease, or may at any moment: they now own what this host
                held.
        """
        self._on_lease_ended += [on_lease_ended] if on_lease_ended else []
        self._after_lease_ended += [after_lease_ended] if after_lease_ended else []
        self._on_lease_lost += [on_lease_lost] if on_lease_lost else []

    async def current_run(self) -> NodeRun:
        """Return the node and epoch of this run. Call it each time: after a lost lease the epoch changes.

        Raises:
            HostError: `node.lost`, the lease could not be renewed, and others may have taken over; `node.lock`, the
                lock file of this run could not be made.
        """
        if self.lease_at_risk:
            raise HostError(
                "this host could not say that it still runs, and others may take it for dead",
                code="node.lost",
                hint="try again when the database can be reached",
            )
        return await self._ensure_entered()

    async def _ensure_entered(self) -> NodeRun:
        if self._run is not None:
            return self._run
        async with self._entering:
            if self._run is None:
                started_at = self._clock.monotonic()
                run = await self._database.write(self._enter)
                await self._lock_run(run)
                self._run = run
                self._on_renewed(started_at)
                if self._renewal is None:
                    self._renewal = asyncio.create_task(self._renew_forever(), name="keep the lease of this node")
            return self._run

    async def _lock_run(self, run: NodeRun) -> None:
        """Lock the file that tells when this run is over. Where nothing else does, there is no run without it."""
        if self._run_locks is None:
            return
        try:
            self._run_locks.acquire(run.epoch)
        except OSError as error:
            if self._database.engine == "postgresql":
                _log.warning("the lock file of this run could not be made, others wait for its silence: %s", error)
                return
            await self._database.write(lambda tx: self._leave(tx, run))
            raise HostError(
                f"the lock file of this run could not be made: {error}",
                code="node.lock",
                hint="it is in `runs` below the home's state; see that its file system has room and can lock files",
            ) from error

    def _enter(self, tx: Transaction) -> NodeRun:
        run = leases.open_lease(tx, self.name, daemon=self._is_daemon)
        if self._is_daemon and self._renewal is None:  # after the start, a run with the same id is a copy of this home
            for former in leases.former_daemons(tx, run):
                leases.end_lease(tx, former)
                self._release_work_of(tx, former)
        return run

    def _release_work_of(self, tx: Transaction, run: NodeRun) -> None:
        for release in self._on_lease_ended:
            release(tx, run)

    async def end_dead_runs(self) -> list[NodeRun]:
        """End the leases of dead runs of this home, however they died; returns these runs."""
        dead_epochs = [] if self._run_locks is None else self._run_locks.dead_epochs()
        if self._run_locks is None or not dead_epochs:
            return []
        ended = await self._end_leases(
            lambda tx: [run for epoch in dead_epochs if leases.end_lease(tx, run := NodeRun(self.name, epoch))]
        )
        for epoch in dead_epochs:
            self._run_locks.release(epoch)
        return ended

    async def _end_leases(self, end_leases: Callable[[Transaction], list[NodeRun]]) -> list[NodeRun]:
        def end_and_release(tx: Transaction) -> list[NodeRun]:
            ended = end_leases(tx)
            for run in ended:
                self._release_work_of(tx, run)
            return ended

        ended = await self._database.write(end_and_release)
        for run in ended:
            _log.warning("node %s (epoch %d) is gone; its work is free", run.node, run.epoch)
        for callback in self._after_lease_ended if ended else ():
            callback()
        return ended

    async def renew(self) -> list[NodeRun]:
        """Renew this host's lease, and end the leases of dead and silent runs; returns these runs.

        If its own lease was ended, the host goes on under a new epoch: it no longer owns what it held.
        """
        run, started_at = await self._ensure_entered(), self._clock.monotonic()
        if await self._database.write(lambda tx: leases.renew_lease(tx, run)):
            self._on_renewed(started_at)
        else:
            _log.error("others took this node for dead (epoch %d); it goes on under another epoch", run.epoch)
            self._run = None
            for callback in self._on_lease_lost:  # before anything starts under the next epoch
                callback()
            if self._run_locks is not None:
                self._run_locks.release(run.epoch)
            await self._ensure_entered()
        if not self._is_daemon:
            return []
        dead = await self.end_dead_runs()
        # While the database is away no run can send a heartbeat: when it is back, all have time to do so first.
        if self._database.engine == "sqlite" or self._clock.monotonic() - self._renewing_since < LEASE_S:
            return dead
        return dead + await self._end_leases(leases.end_silent)

    def _on_renewed(self, started_at: float) -> None:
        """Restart the risk timer. The lease lasts `LEASE_S` from the write, which came after `started_at`."""
        self.lease_at_risk = False
        if self._renewed_at is None or started_at - self._renewed_at > _MAX_HEARTBEAT_GAP_S:
            self._renewing_since = started_at
        self._renewed_at = started_at
        if self._risk_timer is not None:
            self._risk_timer.cancel()
        if self._database.engine == "postgresql":  # on the embedded engine a full disk makes no host look dead
            delay_s = LEASE_S - HEARTBEAT_INTERVAL_S - (self._clock.monotonic() - started_at)
            # A timer, not part of the renewal: that may block for as long as a dead connection.
            self._risk_timer = asyncio.get_running_loop().call_later(delay_s, self._on_lease_at_risk)

    def _on_lease_at_risk(self) -> None:
        _log.error("the lease of this node was not renewed; until it is, nothing begins here that has an effect")
        self.lease_at_risk = True
        for callback in self._on_lease_lost:
            callback()

    async def _renew_forever(self) -> None:
        loop = asyncio.get_running_loop()
        renewed_at = loop.time()
        while True:
            await asyncio.sleep(min(HOME_CHECK_INTERVAL_S, HEARTBEAT_INTERVAL_S))
            try:
                if loop.time() - renewed_at >= HEARTBEAT_INTERVAL_S:
                    renewed_at = loop.time()
                    await self.renew()
                elif self._is_daemon:
                    await self.end_dead_runs()
            except PaddockError as error:
                _log.warning("the lease of this node was not renewed: %s", error.message)

    async def leave(self) -> None:
        """End the lease, and release what is still held under it."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        if self._risk_timer is not None:
            self._risk_timer.cancel()
        run, self._run = self._run, None
        if run is not None:
            recorded = False
            with contextlib.suppress(PaddockError, TimeoutError):  # otherwise others find out
                async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                    await self._database.write(lambda tx: self._leave(tx, run))
                recorded = True
            if self._run_locks is not None:
                self._run_locks.release(run.epoch, recorded=recorded)

    def _leave(self, tx: Transaction, run: NodeRun) -> None:
        if leases.end_lease(tx, run):
            self._release_work_of(tx, run)


@asynccontextmanager
async def open_node(
    database: Database, clock: Clock, random: Random, *, state: Path, daemon: bool
) -> AsyncGenerator[Node, None]:
    """Provide this host's node for as long as the block runs.

    Raises:
        HostError: `node.id`, when the node id of this home cannot be read or created.
    """
    node_id = load_or_create_node_id(state, clock, random)
    node = Node(node_id, database, clock, daemon=daemon, run_locks=RunLocks(state))
    try:
        yield node
    finally:
        await node.leave()
