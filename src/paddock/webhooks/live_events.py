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
from paddock.core.events.calls import CallEnded
from paddock.core.events.contracts import PluginToolInvoked
from paddock.core.ids import Tenant
from paddock.ledger.entry import PRINCIPAL_FIELD, LedgerEntry
from paddock.ledger.read.entries import list_entries, read_head
from paddock.store.database import Database, Transaction
from paddock.webhooks.cloud_event import ALL_EVENTS, matches_any, matches_explicitly, to_cloud_events

MAX_QUEUED_EVENTS = 256
ENTRIES_PER_READ = 500
POLL_INTERVAL_S = 1.0  # seconds between two looks, where nobody says that there is something new
MIN_POLL_INTERVAL_S = 0.25  # seconds at least: whoever watches sees no difference, and 500 of them are woken that often

_log = logging.getLogger("paddock.webhooks")


class EventBatch(NamedTuple):
    """Some events in the form of server-sent events, for one client."""

    text: bytes

    def encode(self) -> bytes:
        return self.text


class EventView(NamedTuple):
    """What of a tenant's events somebody follows.

    Attributes:
        patterns: Which of them; see `patterns.py`.
        made_by: Only those of calls that this one made, or a key of theirs, and nothing that they say of people.
            Without it everything is told, as the ledger shows it to its operator.
    """

    patterns: Sequence[str]
    made_by: str | None = None

    def shows(self, entry: LedgerEntry) -> bool:
        if self.made_by is None:
            return True
        makers = (entry.personal.get(PRINCIPAL_FIELD), entry.personal.get("owner"))
        return entry.call is not None and self.made_by in makers


class _EncodedEntry:
    """One entry, written out once for all who see the same of it."""

    def __init__(self, entry: LedgerEntry, source: str) -> None:
        self._entry = entry
        self._source = source
        self._written: dict[bool, tuple[bytes, bytes | None]] = {}

    def for_view(self, view: EventView) -> list[bytes]:
        """What somebody gets of it."""
        if not view.shows(self._entry):
            return []
        own, other = self._encode(personal=view.made_by is None)
        wants = matches_any(view.patterns, self._entry.type)
        if other is None or not matches_explicitly(view.patterns, PluginToolInvoked.type):
            return [own] if wants else []
        # The number comes with the last: who was cut off between the two gets both again.
        return [own.partition(b"\n")[2] + other] if wants else [other]

    def _encode(self, *, personal: bool) -> tuple[bytes, bytes | None]:
        """The event, and the one that is told to those alone who name it."""
        known = self._written.get(personal)
        if known is None:
            entry, source = self._entry, self._source
            (own,) = to_cloud_events(entry, (ALL_EVENTS,), source, personal=personal)
            named = (
                to_cloud_events(entry, (PluginToolInvoked.type,), source, personal=personal)
                if _is_call_ended(entry)
                else []
            )
            other = _encode_sse(entry.seq, named[0]) if named else None
            known = self._written[personal] = _encode_sse(entry.seq, own), other
        return known


class _Follower:
    def __init__(self, view: EventView) -> None:
        self.view = view
        self.waiting: list[bytes] = []
        self.news = asyncio.Event()
        self.dropped = False

    def push(self, pieces: Iterable[_EncodedEntry]) -> None:
        for piece in pieces:
            self.waiting += piece.for_view(self.view)
        if len(self.waiting) > MAX_QUEUED_EVENTS:
            self.waiting, self.dropped = [], True
        if self.waiting or self.dropped:
            self.news.set()

    async def next(self) -> bytes | None:
        """What came since the last time; None for one that was let go."""
        await self.news.wait()
        self.news.clear()
        waiting, self.waiting = self.waiting, []
        return None if self.dropped else b"".join(waiting)


class _TenantChannel:
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
        self._channels: dict[Tenant, _TenantChannel] = {}
        self._has_followers = asyncio.Event()

    @property
    def followers(self) -> int:
        """How many follow."""
        return sum(len(channel.followers) for channel in self._channels.values())

    async def last_seq(self, tenant: Tenant) -> int:
        """The number of a tenant's last entry: whoever follows after it hears of everything from now on."""
        head = await self._database.read(lambda tx: read_head(tx, tenant))
        return head[0] if head else 0

    async def follow(self, tenant: Tenant, view: EventView, after: int) -> AsyncGenerator[EventBatch, None]:
        """The events of a tenant as they come, after the entry of this number."""
        follower, behind = _Follower(view), after
        channel = self._channels.setdefault(tenant, _TenantChannel(await self.last_seq(tenant)))
        try:
            while behind < channel.seq:
                entries, behind = await self._read_missed(tenant, behind, channel.seq)
                pieces = [text for entry in entries for text in _EncodedEntry(entry, self._source).for_view(view)]
                # Without data a client takes note of the number, and nothing else happens.
                yield EventBatch(b"".join(pieces) or b"id: %d\n\n" % behind)
                channel = self._channels.setdefault(tenant, channel)  # all others may have left meanwhile
            channel.followers.add(follower)  # nothing was awaited since
            self._has_followers.set()
            while (text := await follower.next()) is not None:
                yield EventBatch(text)
        finally:
            channel.followers.discard(follower)
            if not channel.followers and self._channels.get(tenant) is channel:
                del self._channels[tenant]

    async def _read_missed(self, tenant: Tenant, after: int, end: int) -> tuple[list[LedgerEntry], int]:
        entries = await self._database.read(
            lambda tx: list_entries(tx, tenant, after=after, before=end + 1, newest_first=False, limit=ENTRIES_PER_READ)
        )
        return entries, entries[-1].seq if entries else end

    async def run(self) -> None:
        """Read what comes for as long as somebody follows."""
        told = ""
        while True:
            if not self._channels:
                self._has_followers.clear()
            await self._has_followers.wait()
            try:
                more, told = await self.poll(), ""
            except PaddockError as error:
                if error.message != told:
                    _log.warning("events could not be read: %s", error.message)
                more, told = False, error.message
            await asyncio.sleep(MIN_POLL_INTERVAL_S)
            if not more:
                try:
                    async with asyncio.timeout(POLL_INTERVAL_S):
                        await self._landed()
                except TimeoutError:
                    pass

    async def poll(self) -> bool:
        """Tell everybody what is new; whether there is more."""
        followed = {tenant: channel.seq for tenant, channel in self._channels.items()}
        found = await self._database.read(lambda tx: _read_new_entries(tx, followed))
        for tenant, entries in found.items():
            channel = self._channels.get(tenant)
            if channel is None or channel.seq != followed[tenant]:
                continue  # everybody left meanwhile, or left and came back
            channel.seq = entries[-1].seq
            pieces = [_EncodedEntry(entry, self._source) for entry in entries]
            for follower in tuple(channel.followers):
                follower.push(pieces)
                if follower.dropped:
                    channel.followers.discard(follower)
        return any(len(entries) == ENTRIES_PER_READ for entries in found.values())


def _is_call_ended(entry: LedgerEntry) -> bool:
    return entry.type == CallEnded.type


def _encode_sse(seq: int, event: object) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (seq, orjson.dumps(event))


def _read_new_entries(tx: Transaction, followed: dict[Tenant, int]) -> dict[Tenant, list[LedgerEntry]]:
    found: dict[Tenant, list[LedgerEntry]] = {}
    for tenant, seq in followed.items():
        head = read_head(tx, tenant)
        if head is not None and head[0] > seq:
            entries = list_entries(tx, tenant, after=seq, newest_first=False, limit=ENTRIES_PER_READ)
            if entries:
                found[tenant] = entries
    return found
