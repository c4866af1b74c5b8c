"""This running host among all that share a database: its name, its epoch, and the lease that it keeps.

Whoever writes down that they are working on something writes `Here` beside it, and in the same unit of work sees with
`leases.require` that it still holds. When a host dies its lease ends: as soon as another of its home looks, which a
daemon does at its start and at each beat and a command when it opens, or else once it has been silent for a minute. In
that unit of work whatever it held is given free, by those who asked for it in `when_over`.

A host that cannot renew its lease does not wait to hear of that from the others: where any could take it for dead it
begins nothing more, and ends what it is at, a beat before they may.
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
from paddock.queue.leases import HEARTBEAT_INTERVAL_S, LEASE_S, LeaseMonitor, NodeRun
from paddock.queue.run_locks import RunLocks
from paddock.store.database import Database
from paddock.store.filesystem import sync_directory
from paddock.store.transaction import Transaction

_NODE_ID = re.compile(rb"node_[0-9a-z]{26}\n?")


def node_file(state: Path) -> Path:
    return state / "node"


def load_or_create_node_id(state: Path, clock: Clock, random: Random) -> str:
    """The name of this home, made when it has none. Of two that make it at once, both get the one that was first.

    Raises:
        HostError: `node.id`, when it cannot be read or made, or others may change it.
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


def _create_node_file(file: Path, name: str) -> None:
    draft = file.with_name(f"{file.name}-{name}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(f"{name}\n".encode())
            opened.flush()
            os.fsync(opened.fileno())
        try:
            os.link(draft, file)  # unlike a rename, it never takes the place of one that is there
        except FileExistsError:
            return
        sync_directory(file.parent)
    finally:
        draft.unlink(missing_ok=True)


def _node_id_error(file: Path, why: str, hint: str) -> HostError:
    return HostError(f"the name of this node in {file} cannot be used: {why}", code="node.id", hint=hint)


__all__ = ["Node", "NodeRun", "open_node"]

_log = logging.getLogger("paddock.queue")

_LEAVE_TIMEOUT_S = 5


class Node:
    """This host's place among the others.

    A daemon has an epoch from the start. A command takes one when somebody first asks for it, so that one which only
    reads writes nothing.

    Args:
        name: The name of this home, see `identity.py`.
        database: What is shared.
        clock: Its growing time measures how long others are silent.
        lasting: Whether this is a daemon, which ends the leases of those before it and of those that are silent.
        presence: Tells which runs of this home are gone; without it only their silence does.
    """

    def __init__(
        self, name: str, database: Database, clock: Clock, *, lasting: bool, presence: RunLocks | None = None
    ) -> None:
        self.name = name
        self.on_lease_ended: list[Callable[[Transaction, NodeRun], object]] = [queue.release_held_by]
        self.after_lease_ended: list[Callable[[], None]] = []
        # Others ended our lease, or may at any moment: what was held is theirs to see to.
        self.on_lease_lost: list[Callable[[], None]] = []
        self.lease_at_risk = False  # whether others may take this host for dead: nothing begins that it would hold
        self._database = database
        self._clock = clock
        self._is_daemon = lasting
        self._run_locks = presence
        self._monitor = LeaseMonitor()
        self._run: NodeRun | None = None
        self._entering = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._risk_timer: asyncio.TimerHandle | None = None

    async def current_run(self) -> NodeRun:
        """The node and epoch of this run. Ask each time: whoever lost their lease gets another epoch.

        Raises:
            HostError: `node.lost`, it could not renew its lease, and others may have taken over.
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
                began = self._clock.monotonic()
                self._run = await self._database.write(self._enter)
                self._on_renewed(began)
                if self._run_locks is not None:
                    self._run_locks.acquire(self._run.epoch)
                if self._renewal is None:
                    self._renewal = asyncio.create_task(self._renew_forever(), name="keep the lease of this node")
            return self._run

    def _enter(self, tx: Transaction) -> NodeRun:
        here = leases.open_lease(tx, self.name, lasting=self._is_daemon)
        if self._is_daemon and self._renewal is None:  # later on, one of the same name is a copy of this home
            for one in leases.former_daemons(tx, here):
                leases.end_lease(tx, one)
                self._release_work_of(tx, one)
        return here

    def _release_work_of(self, tx: Transaction, one: NodeRun) -> None:
        for free in self.on_lease_ended:
            free(tx, one)

    async def end_dead_runs(self) -> list[NodeRun]:
        """End the leases of those runs of this home that are gone, whatever ended them; gives these."""
        gone = [] if self._run_locks is None else self._run_locks.dead_epochs()
        if self._run_locks is None or not gone:
            return []
        ended = await self._end_leases(
            lambda tx: [one for epoch in gone if leases.end_lease(tx, one := NodeRun(self.name, epoch))]
        )
        for epoch in gone:
            self._run_locks.release(epoch)
        return ended

    async def _end_leases(self, which: Callable[[Transaction], list[NodeRun]]) -> list[NodeRun]:
        def unit(tx: Transaction) -> list[NodeRun]:
            ended = which(tx)
            for one in ended:
                self._release_work_of(tx, one)
            return ended

        ended = await self._database.write(unit)
        for one in ended:
            _log.warning("node %s (epoch %d) is gone; its work is free", one.node, one.epoch)
        for tell in self.after_lease_ended if ended else ():
            tell()
        return ended

    async def renew(self) -> list[NodeRun]:
        """Say that this host still runs, and end the leases of those that do not; gives these.

        Where its own lease was ended the host goes on under another epoch: what it held is no longer its own.
        """
        here, began = await self._ensure_entered(), self._clock.monotonic()
        if await self._database.write(lambda tx: leases.renew_lease(tx, here)):
            self._on_renewed(began)
        else:
            _log.error("others took this node for dead (epoch %d); it goes on under another epoch", here.epoch)
            self._run = None
            for tell in self.on_lease_lost:  # before anything begins under the next epoch
                tell()
            if self._run_locks is not None:
                self._run_locks.release(here.epoch)
            here = await self._ensure_entered()
        if not self._is_daemon:
            return []
        gone = await self.end_dead_runs()
        now = await self._database.read(leases.read_heartbeats)
        silent = self._monitor.find_expired(now, self._clock.monotonic(), but=(here,))
        if not silent:
            return gone
        return gone + await self._end_leases(
            lambda tx: [one for one, seen in silent.items() if leases.end_expired(tx, one, seen)]
        )

    def _on_renewed(self, began: float) -> None:
        """The lease is good for a whole `LEASE` from when that was written, which was not before it began."""
        self.lease_at_risk = False
        if self._risk_timer is not None:
            self._risk_timer.cancel()
        if self._database.engine != "sqlite":  # there no host watches another: a full disk makes nobody look dead
            left = LEASE_S - HEARTBEAT_INTERVAL_S - (self._clock.monotonic() - began)
            # No part of the beat: that waits for as long as a connection does on which nothing comes through.
            self._risk_timer = asyncio.get_running_loop().call_later(left, self._on_lease_at_risk)

    def _on_lease_at_risk(self) -> None:
        _log.error("the lease of this node was not renewed; until it is, nothing begins here that has an effect")
        self.lease_at_risk = True
        for tell in self.on_lease_lost:
            tell()

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            try:
                await self.renew()
            except PaddockError as error:
                _log.warning("the lease of this node was not renewed: %s", error.message)

    async def leave(self) -> None:
        """Give the lease back, and free what is still held under it."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        if self._risk_timer is not None:
            self._risk_timer.cancel()
        here, self._run = self._run, None
        if here is not None:
            told = False
            with contextlib.suppress(PaddockError, TimeoutError):  # else others find out
                async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                    await self._database.write(lambda tx: self._leave(tx, here))
                told = True
            if self._run_locks is not None:
                self._run_locks.release(here.epoch, known=told)

    def _leave(self, tx: Transaction, here: NodeRun) -> None:
        if leases.end_lease(tx, here):
            self._release_work_of(tx, here)


@asynccontextmanager
async def open_node(
    database: Database, clock: Clock, random: Random, *, state: Path, lasting: bool
) -> AsyncGenerator[Node, None]:
    """This host's place for as long as the block runs.

    Add to `when_over` before anybody calls `here()`: that is when a daemon ends the leases of those before it.

    Raises:
        HostError: `node.id`, when the name of this home cannot be read or made.
    """
    name = load_or_create_node_id(state, clock, random)
    node = Node(name, database, clock, lasting=lasting, presence=RunLocks(state))
    try:
        yield node
    finally:
        await node.leave()
