"""The cache family: short-lived values in memory, each plugin's its own.

A value may be gone at any time: when its time is over, when its plugin keeps too much, when all together do, and when
the host restarts. What must last belongs into keyvalue or storage.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from paddock.capabilities.asking import Asking
from paddock.capabilities.door import Handler
from paddock.capabilities.json_bytes import encoded
from paddock.capabilities.params import number, text, wrong
from paddock.core.clock import Clock

LONGEST_KEY = 512
LARGEST_VALUE = 1 << 20
DEFAULT_TTL = 300.0
LONGEST_TTL = 86_400.0
_OVERHEAD = 200  # bytes that an entry costs beside its key and value

Owner: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much is kept, in bytes."""

    plugin_bytes: int = 8 << 20
    total_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class _Entry:
    value: bytes
    until: float
    size: int


@dataclass(slots=True)
class _Shelf:
    """One plugin's entries, the least recently used first."""

    entries: OrderedDict[str, _Entry] = field(default_factory=OrderedDict[str, _Entry])
    size: int = 0


class Cache:
    """Values with an end. Knows the time only through the clock, and needs no timer: what is over is found over."""

    def __init__(self, clock: Clock, limits: CacheLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or CacheLimits()
        self._shelves: dict[Owner, _Shelf] = {}
        self._size = 0

    def handlers(self) -> dict[str, Handler]:
        return {"cache.get": self.get, "cache.set": self.set, "cache.delete": self.delete}

    async def get(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """`{value, found}`; the value is null where nothing was found."""
        key = text(params, "key", longest=LONGEST_KEY)
        owner = _owner(asking)
        shelf = self._shelves.get(owner)
        entry = shelf.entries.get(key) if shelf else None
        if shelf is None or entry is None:
            return {"value": None, "found": False}
        if entry.until <= self._clock.monotonic():
            self._remove(owner, key)
            return {"value": None, "found": False}
        shelf.entries.move_to_end(key)
        return {"value": orjson.loads(entry.value), "found": True}

    async def set(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a value for `ttl` seconds; gives the seconds.

        Raises:
            CallerError: the key, the value or the time is not acceptable.
        """
        key = text(params, "key", longest=LONGEST_KEY)
        if "value" not in params:
            raise wrong("value", "is missing")
        ttl = number(params, "ttl", least=0.001, most=LONGEST_TTL, default=DEFAULT_TTL)
        value = encoded("value", params["value"], LARGEST_VALUE)
        owner = _owner(asking)
        self._remove(owner, key)
        self._keep(owner, key, _Entry(value, self._clock.monotonic() + ttl, len(value) + len(key) + _OVERHEAD))
        return {"ttl": ttl}

    async def delete(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Forget a value; tells whether there was one."""
        return {"deleted": self._remove(_owner(asking), text(params, "key", longest=LONGEST_KEY))}

    def forget(self, plugin: str) -> None:
        """Drop everything of one plugin, of all tenants. For uninstalling."""
        for owner in [owner for owner in self._shelves if owner[1] == plugin]:
            self._size -= self._shelves.pop(owner).size

    def _keep(self, owner: Owner, key: str, entry: _Entry) -> None:
        shelf = self._shelves.setdefault(owner, _Shelf())
        shelf.entries[key] = entry
        shelf.size += entry.size
        self._size += entry.size
        while shelf.size > self._limits.plugin_bytes:
            self._remove(owner, next(iter(shelf.entries)))
        while self._size > self._limits.total_bytes:
            # Whoever keeps most gives way, so that one plugin cannot empty the others' shelves.
            largest = max(self._shelves, key=lambda one: self._shelves[one].size)
            self._remove(largest, next(iter(self._shelves[largest].entries)))

    def _remove(self, owner: Owner, key: str) -> bool:
        shelf = self._shelves.get(owner)
        entry = shelf.entries.pop(key, None) if shelf else None
        if shelf is None or entry is None:
            return False
        shelf.size -= entry.size
        self._size -= entry.size
        if not shelf.entries:
            del self._shelves[owner]
        return True


def _owner(asking: Asking) -> Owner:
    return (asking.tenant, asking.plugin)
