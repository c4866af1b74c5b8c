"""Live event streams: one reader of the ledger for all followers.

Each entry that a follower selects is read and encoded once, and passed to all followers of its tenant. A follower that
does not keep up is dropped after `MAX_QUEUED_EVENTS`; it reconnects with its last event id and first reads the entries
that it missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson

from paddock.core.errors import PaddockError
from paddock.core.events.calls import CallEnded
from paddock.core.events.contracts import PluginToolInvoked
from paddock.core.ids import Tenant
from paddock.ledger.entry import PRINCIPAL_FIELD, LedgerEntry
from paddock.ledger.read.entries import EntryFilter, list_entries, read_head
from paddock.store.database import Database, Transaction
from paddock.webhooks.cloud_event import ALL_EVENTS, matches_any, matches_explicitly, to_cloud_events

MAX_QUEUED_EVENTS = 256
ENTRIES_PER_READ = 500
POLL_INTERVAL_S = 1.0  # without a notification of new entries
MIN_POLL_INTERVAL_S = 0.25  # limits the wake-ups of hundreds of followers

_log = logging.getLogger("paddock.webhooks")


class EventBatch(NamedTuple):
    """Several events encoded as server-sent events, for one client."""

    text: bytes

    def encode(self) -> bytes:
        return self.text


class EventView(NamedTuple):
    """The events of a tenant that a follower sees.

    Attributes:
        patterns: Selected event types; see `cloud_event.parse_patterns`.
        made_by: Only events of calls made by this principal or one of its keys, without personal data. None means all
            events with personal data, as the ledger shows them to operators.
    """

    patterns: Sequence[str]
    made_by: str | None = None

    @property
    def entry_types(self) -> frozenset[str]:
        """The types of entries, or patterns of them, that its events are made from."""
        derived = matches_explicitly(self.patterns, PluginToolInvoked.type)
        return frozenset((*self.patterns, CallEnded.type) if derived else self.patterns)

    def shows(self, entry: LedgerEntry) -> bool:
        if self.made_by is None:
            return True
        makers = (entry.personal.get(PRINCIPAL_FIELD), entry.personal.get("owner"))
        return entry.call is not None and self.made_by in makers


class _EncodedEntry:
    """An entry, encoded once for all followers with the same view of it."""

    def __init__(self, entry: LedgerEntry, source: str) -> None:
        self._entry = entry
        self._source = source
        self._encoded: dict[bool, tuple[bytes, bytes | None]] = {}

    def for_view(self, view: EventView) -> list[bytes]:
        """Return the encoded events that a follower gets of the entry."""
        wanted = matches_any(view.patterns, self._entry.type)
        wants_derived = _is_call_ended(self._entry) and matches_explicitly(view.patterns, PluginToolInvoked.type)
        if not (wanted or wants_derived) or not view.shows(self._entry):
            return []
        event, derived = self._encode(personal=view.made_by is None)
        if derived is None or not wants_derived:
            return [event] if wanted else []
        # Only the last one has the id: a client that was cut off between the two gets both again.
        return [event.partition(b"\n")[2] + derived] if wanted else [derived]

    def _encode(self, *, personal: bool) -> tuple[bytes, bytes | None]:
        """Encode the event, and the derived one that is sent only to patterns which name it."""
        encoded = self._encoded.get(personal)
        if encoded is None:
            entry, source = self._entry, self._source
            (event,) = to_cloud_events(entry, (ALL_EVENTS,), source, personal=personal)
            derived_events = (
                to_cloud_events(entry, (PluginToolInvoked.type,), source, personal=personal)
                if _is_call_ended(entry)
                else []
            )
            derived = _encode_sse(entry.seq, derived_events[0]) if derived_events else None
            encoded = self._encoded[personal] = _encode_sse(entry.seq, event), derived
        return encoded


class _Follower:
    def __init__(self, view: EventView) -> None:
        self.view = view
        self.queued: list[bytes] = []
        self.wake = asyncio.Event()
        self.dropped = False

    def push(self, entries: Iterable[_EncodedEntry]) -> None:
        for entry in entries:
            self.queued += entry.for_view(self.view)
        if len(self.queued) > MAX_QUEUED_EVENTS:
            self.queued, self.dropped = [], True
        if self.queued or self.dropped:
            self.wake.set()

    async def next(self) -> bytes | None:
        """Return the events since the last call; None if the follower was dropped."""
        await self.wake.wait()
        self.wake.clear()
        batch, self.queued = self.queued, []
        return None if self.dropped else b"".join(batch)


class _TenantChannel:
    """The followers of one tenant, and the last ledger position that they were sent."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.followers: set[_Follower] = set()

    @property
    def entry_types(self) -> frozenset[str]:
        """The types that any follower selects."""
        return frozenset[str]().union(*(follower.view.entry_types for follower in self.followers))


class LiveEvents:
    """Streams the ledger to followers.

    Args:
        database: Holds the ledger.
        source: The CloudEvents source of this host.
        wait_for_entries: Waits until the ledger has new entries.
    """

    def __init__(self, database: Database, source: str, wait_for_entries: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._source = source
        self._wait_for_entries = wait_for_entries
        self._channels: dict[Tenant, _TenantChannel] = {}
        self._has_followers = asyncio.Event()

    @property
    def followers(self) -> int:
        """Number of followers."""
        return sum(len(channel.followers) for channel in self._channels.values())

    async def last_seq(self, tenant: Tenant) -> int:
        """Return the last ledger position of a tenant; following after it yields everything new."""
        head = await self._database.read(lambda tx: read_head(tx, tenant))
        return head[0] if head else 0

    async def follow(self, tenant: Tenant, view: EventView, after: int) -> AsyncGenerator[EventBatch, None]:
        """Yield the events of a tenant after a ledger position, as they come."""
        follower, position = _Follower(view), after
        channel = self._channels.setdefault(tenant, _TenantChannel(await self.last_seq(tenant)))
        try:
            while position < channel.seq:
                entries, position = await self._database.read(
                    lambda tx, after=position, end=channel.seq: _read_entries(tx, tenant, view.entry_types, after, end)
                )
                pieces = [text for entry in entries for text in _EncodedEntry(entry, self._source).for_view(view)]
                # An event without data only updates the client's last event id.
                yield EventBatch(b"".join(pieces) or b"id: %d\n\n" % position)
                channel = self._channels.setdefault(tenant, channel)  # all other followers may have left meanwhile
            channel.followers.add(follower)  # nothing was awaited since the check, so no entry is missed
            self._has_followers.set()
            while (text := await follower.next()) is not None:
                yield EventBatch(text)
        finally:
            channel.followers.discard(follower)
            if not channel.followers and self._channels.get(tenant) is channel:
                del self._channels[tenant]

    async def run(self) -> None:
        """Read new entries while there are followers."""
        last_error = ""
        while True:
            if not self._channels:
                self._has_followers.clear()
            await self._has_followers.wait()
            try:
                more, last_error = await self.poll(), ""
            except PaddockError as error:
                if error.message != last_error:
                    _log.warning("events could not be read: %s", error.message)
                more, last_error = False, error.message
            await asyncio.sleep(MIN_POLL_INTERVAL_S)
            if not more:
                try:
                    async with asyncio.timeout(POLL_INTERVAL_S):
                        await self._wait_for_entries()
                except TimeoutError:
                    pass

    async def poll(self) -> bool:
        """Send new entries to all followers; returns whether there are more."""
        wanted = {tenant: (channel.seq, channel.entry_types) for tenant, channel in self._channels.items()}
        batches = await self._database.read(lambda tx: _read_new_entries(tx, wanted))
        more = False
        for tenant, (entries, position) in batches.items():
            channel, (seq, entry_types) = self._channels.get(tenant), wanted[tenant]
            if channel is None or channel.seq != seq:
                continue  # all followers left meanwhile, and maybe came back
            if ALL_EVENTS not in entry_types and not channel.entry_types <= entry_types:
                more = True  # one came meanwhile that selects other events: they are read with the next poll
                continue
            channel.seq = position
            more = more or len(entries) == ENTRIES_PER_READ
            pieces = [_EncodedEntry(entry, self._source) for entry in entries]
            for follower in tuple(channel.followers):
                follower.push(pieces)
                if follower.dropped:
                    channel.followers.discard(follower)
        return more


def _is_call_ended(entry: LedgerEntry) -> bool:
    return entry.type == CallEnded.type


def _encode_sse(seq: int, event: object) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (seq, orjson.dumps(event))


def _read_new_entries(
    tx: Transaction, wanted: Mapping[Tenant, tuple[int, frozenset[str]]]
) -> dict[Tenant, tuple[list[LedgerEntry], int]]:
    """Return for each tenant with new entries those of the types, and the position that they lead to."""
    batches: dict[Tenant, tuple[list[LedgerEntry], int]] = {}
    for tenant, (seq, entry_types) in wanted.items():
        head = read_head(tx, tenant)
        if head is not None and head[0] > seq:
            batches[tenant] = _read_entries(tx, tenant, entry_types, seq, head[0])
    return batches


def _read_entries(
    tx: Transaction, tenant: Tenant, entry_types: frozenset[str], after: int, end: int
) -> tuple[list[LedgerEntry], int]:
    """Return entries of the types from `after` to `end`, and the position up to which there are no others."""
    # Only these are read: a busy host records thousands of calls in a second, and few pages follow calls.
    if not entry_types:
        return [], end
    selected = EntryFilter(types=() if ALL_EVENTS in entry_types else tuple(sorted(entry_types)))
    entries = list_entries(
        tx, tenant, selected, after=after, before=end + 1, newest_first=False, limit=ENTRIES_PER_READ
    )
    return entries, entries[-1].seq if len(entries) == ENTRIES_PER_READ else end
