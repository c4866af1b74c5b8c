"""What there is for a caller: tools, prompts and documents under the names that clients use, kept ready as bytes.

The names depend on the catalogue alone, so that one person's tools are called the same as another's. What is listed
under them depends on who asks.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter as Counted
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock
from paddock.core.ids import Tenant
from paddock.gate.catalogue import Catalogue, Entry, Target
from paddock.gate.documents import READ, Documents, declared_documents
from paddock.gate.offering import Offered
from paddock.gateway.exposed_names import exposed
from paddock.gateway.first_meetings import FirstMeetings
from paddock.gateway.revisions import Revision
from paddock.gateway.tool_definitions import definition_of
from paddock.gateway.tool_results import complete
from paddock.host.host import Host
from paddock.rpc.faults import INVALID_PARAMS, RpcFault

GOOD_FOR: Final = 5.0
"""Seconds that a list is given again without asking the rules: what somebody consented to may have changed since."""
_MOST_KEPT: Final = 256  # lists of callers
_MOST_PAGES: Final = 64  # of one caller


class PromptOf(NamedTuple):
    """A prompt of a plugin; what asks for it, where its server is asked."""

    plugin: str
    name: str
    target: Target | None


class Counter:
    """Everything that one catalogue has, by the names that clients use."""

    def __init__(self, catalogue: Catalogue, chosen: Mapping[str, str]) -> None:
        self.catalogue = catalogue
        self.entries: tuple[Entry, ...] = tuple(sorted(catalogue.entries(), key=lambda one: one.manifest.name))
        targets = {
            (entry.manifest.name, "" if target.spec is entry.manifest.whole else target.spec.name): target
            for entry in self.entries
            for target in catalogue.offered_by(entry.manifest.name)
            if target.withheld is None
        }
        names = exposed(targets, chosen)
        self.tools: dict[str, Target] = {names[own]: target for own, target in targets.items()}
        # Whoever may read one document of a plugin may read all of them.
        self.readers: dict[str, Target] = {
            entry.manifest.name: Target(entry, READ) for entry in self.entries if entry.lists_itself and entry.met
        }
        self.prompts: dict[str, PromptOf] = _prompts(self.entries, chosen)
        listed = Counted(uri for plugin in self.readers for uri in documents_of(catalogue.entry(plugin)).resources)
        self.shared = frozenset(name for name, count in listed.items() if count > 1)


class Shelf:
    """What one caller sees of it: each list made once, and written once for each revision."""

    def __init__(self, counter: Counter, rules: object, made_at: float, offered: Iterable[Offered]) -> None:
        self.counter = counter
        self.rules = rules
        self.made_at = made_at
        by_target = {one.target: one for one in offered}
        self.tools = {name: by_target[target] for name, target in counter.tools.items() if target in by_target}
        self.readers = frozenset(plugin for plugin, target in counter.readers.items() if target in by_target)
        self.prompts = {
            name: one for name, one in counter.prompts.items() if one.target is None or one.target in by_target
        }
        self._pages: dict[tuple[str, str, str], bytes] = {}

    async def page(
        self,
        kind: str,
        cursor: str,
        revision: Revision,
        size: int,
        made: Callable[[], Awaitable[dict[str, dict[str, Any]]]],
    ) -> bytes:
        """One page of a list as the result of a request.

        Args:
            kind: What is listed, as the result's member is called.
            cursor: Where it goes on; empty at the beginning.
            revision: Whose form it has.
            size: How many stand on a page.
            made: Makes the whole list, by names that sort.

        Raises:
            RpcFault: the cursor is none of ours.
        """
        key = (kind, cursor, revision.name)
        found = self._pages.get(key)
        if found is None:
            found = orjson.dumps(_page(kind, after(cursor), revision, size, await made()), default=str)
            if len(self._pages) < _MOST_PAGES:  # a client can make up cursors without end
                self._pages[key] = found
        return found


def _page(kind: str, last: str, revision: Revision, size: int, every: dict[str, dict[str, Any]]) -> dict[str, Any]:
    names = sorted(name for name in every if name > last)
    shown: dict[str, Any] = {kind: [every[name] for name in names[:size]]}
    if len(names) > size:
        shown["nextCursor"] = cursor_at(names[size - 1])
    if revision.stateless:
        shown |= {"ttlMs": 0, "cacheScope": "private"}
    return complete(shown, revision)


def cursor_at(name: str) -> str:
    """The cursor behind an entry. By its name, so that lists may change between two pages."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def after(cursor: str) -> str:
    """The name behind which a cursor stands.

    Raises:
        RpcFault: it is none.
    """
    try:
        return base64.urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (binascii.Error, ValueError):
        raise RpcFault(INVALID_PARAMS, "the cursor is not one that we gave out") from None


class Shelves:
    """The shelves of all callers.

    Args:
        host: Knows what there is, and who may have it.
        chosen: The names that the operator chose, by full name.
        clock: Tells how old a shelf is.
    """

    def __init__(self, host: Host, chosen: Mapping[str, str], clock: Clock) -> None:
        self._host = host
        self._chosen = chosen
        self._clock = clock
        self._meetings = FirstMeetings(host)
        self._counters: dict[Tenant, Counter] = {}
        self._shelves: dict[Principal, Shelf] = {}

    def counter(self, tenant: Tenant) -> Counter:
        """What there is for a tenant."""
        catalogue = self._host.exposing.catalogue(tenant)
        found = self._counters.get(tenant)
        if found is None or found.catalogue is not catalogue:
            found = self._counters[tenant] = Counter(catalogue, self._chosen)
        return found

    async def of(self, context: CallContext) -> Shelf:
        """What there is for a caller."""
        await self._meetings.before_listing(context)
        exposing, counter = self._host.exposing, self.counter(context.tenant)
        found, now, rules = self._shelves.get(context.principal), self._clock.monotonic(), exposing.rules
        if found is not None and found.counter is counter and found.rules is rules and now - found.made_at < GOOD_FOR:
            return found
        prompts = (one.target for one in counter.prompts.values() if one.target is not None)
        offered = await exposing.offered(context, (*counter.tools.values(), *counter.readers.values(), *prompts))
        if len(self._shelves) >= _MOST_KEPT:
            self._shelves.clear()
        self._shelves[context.principal] = shelf = Shelf(counter, rules, now, offered)
        return shelf


async def tool_list(shelf: Shelf, revision: Revision) -> dict[str, dict[str, Any]]:
    """Every tool that a caller sees, by name."""
    return {name: definition_of(offered, name, revision) for name, offered in shelf.tools.items()}


def documents_of(entry: Entry) -> Documents:
    """What a plugin has to read."""
    return entry.documents if entry.documents is not None else declared_documents(entry.manifest)


def _prompts(entries: Iterable[Entry], chosen: Mapping[str, str]) -> dict[str, PromptOf]:
    """Every prompt that can be had, by the name that clients use: filled in here, or by a server that was met."""
    found = {
        (entry.manifest.name, name): PromptOf(
            entry.manifest.name, name, None if prompt.text is not None else Target(entry, prompt.spec, asked=name)
        )
        for entry in entries
        for name, prompt in documents_of(entry).prompts.items()
        if prompt.text is not None or (entry.lists_itself and entry.met)
    }
    names = exposed(found, chosen)
    return {names[own]: prompt for own, prompt in found.items()}


def cursor_of(params: Mapping[str, Any]) -> str:
    """Where a list goes on.

    Raises:
        RpcFault: it is no text.
    """
    cursor: Any = params.get("cursor", "")
    if cursor is None:
        return ""
    if not isinstance(cursor, str):
        raise RpcFault(INVALID_PARAMS, "`cursor` is not text")
    return cursor
