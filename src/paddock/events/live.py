"""Events for people who watch: one reader of the ledger, however many follow it.

Each entry is read and written out once, and handed to everybody of its tenant who wants it. One who does not keep up is
let go after `ROOM` events and comes back with the number of the last it had, from where it is read for them alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import orjson

from paddock.core.errors import PaddockError
from paddock.core.events_calls import CallEnded
from paddock.core.events_contracts import PluginToolInvoked
from paddock.core.ids import Tenant
from paddock.events.cloud_event import told
from paddock.events.patterns import EVERYTHING, asked_for, wanted
from paddock.ledger.entry import PRINCIPAL, Entry
from paddock.ledger.feed import head_of, page
from paddock.store.database import Database, Transaction

ROOM = 256
AT_A_TIME = 500
EVERY = 1.0  # seconds between two looks, where nobody says that there is something new
APART = 0.25  # seconds at least: whoever watches sees no difference, and 500 of them are woken that often

_log = logging.getLogger("paddock.events")


class Batch(NamedTuple):
    """Some events in the form of server-sent events, for one client."""

    text: bytes

    def encode(self) -> bytes:
        return self.text


class View(NamedTuple):
    """What of a tenant's events somebody follows.

    Attributes:
        patterns: Which of them; see `patterns.py`.
        made_by: Only those of calls that this one made, or a key of theirs, and nothing that they say of people.
            Without it everything is told, as the ledger shows it to its operator.
    """

    patterns: Sequence[str]
    made_by: str | None = None

    def shows(self, entry: Entry) -> bool:
        if self.made_by is None:
            return True
        makers = (entry.personal.get(PRINCIPAL), entry.personal.get("owner"))
        return entry.call is not None and self.made_by in makers


class _Piece:
    """One entry, written out once for all who see the same of it."""

    def __init__(self, entry: Entry, source: str) -> None:
        self._entry = entry
        self._source = source
        self._written: dict[bool, tuple[bytes, bytes | None]] = {}

    def of(self, view: View) -> list[bytes]:
        """What somebody gets of it."""
        if not view.shows(self._entry):
            return []
        own, other = self._texts(personal=view.made_by is None)
        wants = wanted(view.patterns, self._entry.type)
        if other is None or not asked_for(view.patterns, PluginToolInvoked.type):
            return [own] if wants else []
        # The number comes with the last: who was cut off between the two gets both again.
        return [own.partition(b"\n")[2] + other] if wants else [other]

    def _texts(self, *, personal: bool) -> tuple[bytes, bytes | None]:
        """The event, and the one that is told to those alone who name it."""
        known = self._written.get(personal)
        if known is None:
            entry, source = self._entry, self._source
            (own,) = told(entry, (EVERYTHING,), source, personal=personal)
            named = told(entry, (PluginToolInvoked.type,), source, personal=personal) if _is_call(entry) else []
            other = _text(entry.seq, named[0]) if named else None
            known = self._written[personal] = _text(entry.seq, own), other
        return known


class _Follower:
    def __init__(self, view: View) -> None:
        self.view = view
        self.waiting: list[bytes] = []
        self.news = asyncio.Event()
        self.cut = False

    def give(self, pieces: Iterable[_Piece]) -> None:
        for piece in pieces:
            self.waiting += piece.of(self.view)
        if len(self.waiting) > ROOM:
            self.waiting, self.cut = [], True
        if self.waiting or self.cut:
            self.news.set()

    async def next(self) -> bytes | None:
        """What came since the last time; None for one that was let go."""
        await self.news.wait()
        self.news.clear()
        waiting, self.waiting = self.waiting, []
        return None if self.cut else b"".join(waiting)


class _Channel:
    """Those who follow one tenant, and the last entry that they were told."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.followers: set[_Follower] = set()


class LiveEvents:
    """Passes the ledger on to whoever follows it.

    Args:
        database: Where it is.
        source: How this host is called outside.
        landed: Waits until something more is in it.
    """

    def __init__(self, database: Database, source: str, landed: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._source = source
        self._landed = landed
        self._channels: dict[Tenant, _Channel] = {}
        self._somebody = asyncio.Event()

    @property
    def followers(self) -> int:
        """How many follow."""
        return sum(len(channel.followers) for channel in self._channels.values())

    async def last(self, tenant: Tenant) -> int:
        """The number of a tenant's last entry: whoever follows after it hears of everything from now on."""
        head = await self._database.read(lambda tx: head_of(tx, tenant))
        return head[0] if head else 0

    async def follow(self, tenant: Tenant, view: View, after: int) -> AsyncGenerator[Batch, None]:
        """The events of a tenant as they come, after the entry of this number."""
        follower, behind = _Follower(view), after
        channel = self._channels.setdefault(tenant, _Channel(await self.last(tenant)))
        try:
            while behind < channel.seq:
                entries, behind = await self._missed(tenant, behind, channel.seq)
                pieces = [text for entry in entries for text in _Piece(entry, self._source).of(view)]
                # Without data a client takes note of the number, and nothing else happens.
                yield Batch(b"".join(pieces) or b"id: %d\n\n" % behind)
                channel = self._channels.setdefault(tenant, channel)  # all others may have left meanwhile
            channel.followers.add(follower)  # nothing was awaited since
            self._somebody.set()
            while (text := await follower.next()) is not None:
                yield Batch(text)
        finally:
            channel.followers.discard(follower)
            if not channel.followers and self._channels.get(tenant) is channel:
                del self._channels[tenant]

    async def _missed(self, tenant: Tenant, after: int, end: int) -> tuple[list[Entry], int]:
        entries = await self._database.read(
            lambda tx: page(tx, tenant, after=after, before=end + 1, newest_first=False, limit=AT_A_TIME)
        )
        return entries, entries[-1].seq if entries else end

    async def read_forever(self) -> None:
        """Read what comes for as long as somebody follows."""
        told = ""
        while True:
            if not self._channels:
                self._somebody.clear()
            await self._somebody.wait()
            try:
                more, told = await self.look(), ""
            except PaddockError as error:
                if error.message != told:
                    _log.warning("events could not be read: %s", error.message)
                more, told = False, error.message
            await asyncio.sleep(APART)
            if not more:
                try:
                    async with asyncio.timeout(EVERY):
                        await self._landed()
                except TimeoutError:
                    pass

    async def look(self) -> bool:
        """Tell everybody what is new; whether there is more."""
        followed = {tenant: channel.seq for tenant, channel in self._channels.items()}
        found = await self._database.read(lambda tx: _new(tx, followed))
        for tenant, entries in found.items():
            channel = self._channels.get(tenant)
            if channel is None or channel.seq != followed[tenant]:
                continue  # everybody left meanwhile, or left and came back
            channel.seq = entries[-1].seq
            pieces = [_Piece(entry, self._source) for entry in entries]
            for follower in tuple(channel.followers):
                follower.give(pieces)
                if follower.cut:
                    channel.followers.discard(follower)
        return any(len(entries) == AT_A_TIME for entries in found.values())


def _is_call(entry: Entry) -> bool:
    return entry.type == CallEnded.type


def _text(seq: int, event: object) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (seq, orjson.dumps(event))


def _new(tx: Transaction, followed: dict[Tenant, int]) -> dict[Tenant, list[Entry]]:
    found: dict[Tenant, list[Entry]] = {}
    for tenant, seq in followed.items():
        head = head_of(tx, tenant)
        if head is not None and head[0] > seq:
            entries = page(tx, tenant, after=seq, newest_first=False, limit=AT_A_TIME)
            if entries:
                found[tenant] = entries
    return found
