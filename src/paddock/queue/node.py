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
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, PaddockError
from paddock.queue import leases, queue
from paddock.queue.identity import node_id
from paddock.queue.leases import EVERY, LEASE, Here, Watch
from paddock.queue.presence import Presence
from paddock.store.database import Database
from paddock.store.transaction import Transaction

__all__ = ["Here", "Node", "open_node"]

_log = logging.getLogger("paddock.queue")

_SECONDS_AT_THE_END = 5


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
        self, name: str, database: Database, clock: Clock, *, lasting: bool, presence: Presence | None = None
    ) -> None:
        self.name = name
        self.when_over: list[Callable[[Transaction, Here], object]] = [queue.free]
        self.after_over: list[Callable[[], None]] = []
        # Others ended our lease, or may at any moment: what was held is theirs to see to.
        self.when_lost: list[Callable[[], None]] = []
        self.silent = False  # whether others may take this host for dead: nothing begins that it would hold
        self._database = database
        self._clock = clock
        self._lasting = lasting
        self._presence = presence
        self._watch = Watch()
        self._here: Here | None = None
        self._entering = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None
        self._until_silent: asyncio.TimerHandle | None = None

    async def here(self) -> Here:
        """The node and epoch of this run. Ask each time: whoever lost their lease gets another epoch.

        Raises:
            HostError: `node.lost`, it could not renew its lease, and others may have taken over.
        """
        if self.silent:
            raise HostError(
                "this host could not say that it still runs, and others may take it for dead",
                code="node.lost",
                hint="try again when the database can be reached",
            )
        return await self._entered()

    async def _entered(self) -> Here:
        if self._here is not None:
            return self._here
        async with self._entering:
            if self._here is None:
                began = self._clock.monotonic()
                self._here = await self._database.write(self._enter)
                self._renewed(began)
                if self._presence is not None:
                    self._presence.attend(self._here.epoch)
                if self._beating is None:
                    self._beating = asyncio.create_task(self._beat_forever(), name="keep the lease of this node")
            return self._here

    def _enter(self, tx: Transaction) -> Here:
        here = leases.enter(tx, self.name, lasting=self._lasting)
        if self._lasting and self._beating is None:  # later on, one of the same name is a copy of this home
            for one in leases.former(tx, here):
                leases.end(tx, one)
                self._over(tx, one)
        return here

    def _over(self, tx: Transaction, one: Here) -> None:
        for free in self.when_over:
            free(tx, one)

    async def end_gone(self) -> list[Here]:
        """End the leases of those runs of this home that are gone, whatever ended them; gives these."""
        gone = [] if self._presence is None else self._presence.all_gone()
        if self._presence is None or not gone:
            return []
        ended = await self._end(lambda tx: [one for epoch in gone if leases.end(tx, one := Here(self.name, epoch))])
        for epoch in gone:
            self._presence.leave(epoch)
        return ended

    async def _end(self, which: Callable[[Transaction], list[Here]]) -> list[Here]:
        def unit(tx: Transaction) -> list[Here]:
            ended = which(tx)
            for one in ended:
                self._over(tx, one)
            return ended

        ended = await self._database.write(unit)
        for one in ended:
            _log.warning("node %s (epoch %d) is gone; its work is free", one.node, one.epoch)
        for tell in self.after_over if ended else ():
            tell()
        return ended

    async def beat(self) -> list[Here]:
        """Say that this host still runs, and end the leases of those that do not; gives these.

        Where its own lease was ended the host goes on under another epoch: what it held is no longer its own.
        """
        here, began = await self._entered(), self._clock.monotonic()
        if await self._database.write(lambda tx: leases.beat(tx, here)):
            self._renewed(began)
        else:
            _log.error("others took this node for dead (epoch %d); it goes on under another epoch", here.epoch)
            self._here = None
            for tell in self.when_lost:  # before anything begins under the next epoch
                tell()
            if self._presence is not None:
                self._presence.leave(here.epoch)
            here = await self._entered()
        if not self._lasting:
            return []
        gone = await self.end_gone()
        now = await self._database.read(leases.beats)
        silent = self._watch.silent(now, self._clock.monotonic(), but=(here,))
        if not silent:
            return gone
        return gone + await self._end(
            lambda tx: [one for one, seen in silent.items() if leases.end_silent(tx, one, seen)]
        )

    def _renewed(self, began: float) -> None:
        """The lease is good for a whole `LEASE` from when that was written, which was not before it began."""
        self.silent = False
        if self._until_silent is not None:
            self._until_silent.cancel()
        if self._database.engine != "sqlite":  # there no host watches another: a full disk makes nobody look dead
            left = LEASE - EVERY - (self._clock.monotonic() - began)
            # No part of the beat: that waits for as long as a connection does on which nothing comes through.
            self._until_silent = asyncio.get_running_loop().call_later(left, self._fall_silent)

    def _fall_silent(self) -> None:
        _log.error("the lease of this node was not renewed; until it is, nothing begins here that has an effect")
        self.silent = True
        for tell in self.when_lost:
            tell()

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.beat()
            except PaddockError as error:
                _log.warning("the lease of this node was not renewed: %s", error.message)

    async def leave(self) -> None:
        """Give the lease back, and free what is still held under it."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        if self._until_silent is not None:
            self._until_silent.cancel()
        here, self._here = self._here, None
        if here is not None:
            told = False
            with contextlib.suppress(PaddockError, TimeoutError):  # else others find out
                async with asyncio.timeout(_SECONDS_AT_THE_END):
                    await self._database.write(lambda tx: self._leave(tx, here))
                told = True
            if self._presence is not None:
                self._presence.leave(here.epoch, known=told)

    def _leave(self, tx: Transaction, here: Here) -> None:
        if leases.end(tx, here):
            self._over(tx, here)


@asynccontextmanager
async def open_node(
    database: Database, clock: Clock, random: Random, *, state: Path, lasting: bool
) -> AsyncGenerator[Node, None]:
    """This host's place for as long as the block runs.

    Add to `when_over` before anybody calls `here()`: that is when a daemon ends the leases of those before it.

    Raises:
        HostError: `node.id`, when the name of this home cannot be read or made.
    """
    name = node_id(state, clock, random)
    node = Node(name, database, clock, lasting=lasting, presence=Presence(state))
    try:
        yield node
    finally:
        await node.leave()
