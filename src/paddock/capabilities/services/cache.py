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

from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import encode_json_param, invalid_param, number_param, text_param
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock

MAX_KEY_CHARS = 512
MAX_VALUE_BYTES = 1 << 20
DEFAULT_TTL_S = 300.0
MAX_TTL_S = 86_400.0
_ENTRY_OVERHEAD_BYTES = 200  # bytes that an entry costs beside its key and value

CacheOwner: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much is kept, in bytes."""

    plugin_bytes: int = 8 << 20
    total_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    value: bytes
    until: float
    size: int


@dataclass(slots=True)
class _PluginCache:
    """One plugin's entries, the least recently used first."""

    entries: OrderedDict[str, _CacheEntry] = field(default_factory=OrderedDict[str, _CacheEntry])
    size: int = 0


class CacheService:
    """Values with an end. Knows the time only through the clock, and needs no timer: what is over is found over."""

    def __init__(self, clock: Clock, limits: CacheLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or CacheLimits()
        self._plugin_caches: dict[CacheOwner, _PluginCache] = {}
        self._size = 0

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"cache.get": self.get, "cache.set": self.set, "cache.delete": self.delete}

    async def get(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """`{value, found}`; the value is null where nothing was found."""
        key = text_param(params, "key", longest=MAX_KEY_CHARS)
        owner = _owner(asking)
        shelf = self._plugin_caches.get(owner)
        entry = shelf.entries.get(key) if shelf else None
        if shelf is None or entry is None:
            return {"value": None, "found": False}
        if entry.until <= self._clock.monotonic():
            self._remove(owner, key)
            return {"value": None, "found": False}
        shelf.entries.move_to_end(key)
        return {"value": orjson.loads(entry.value), "found": True}

    async def set(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a value for `ttl` seconds; gives the seconds.

        Raises:
            CallerError: the key, the value or the time is not acceptable.
        """
        key = text_param(params, "key", longest=MAX_KEY_CHARS)
        if "value" not in params:
            raise invalid_param("value", "is missing")
        ttl = number_param(params, "ttl", least=0.001, most=MAX_TTL_S, default=DEFAULT_TTL_S)
        value = encode_json_param("value", params["value"], MAX_VALUE_BYTES)
        owner = _owner(asking)
        self._remove(owner, key)
        self._store(
            owner, key, _CacheEntry(value, self._clock.monotonic() + ttl, len(value) + len(key) + _ENTRY_OVERHEAD_BYTES)
        )
        return {"ttl": ttl}

    async def delete(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Forget a value; tells whether there was one."""
        return {"deleted": self._remove(_owner(asking), text_param(params, "key", longest=MAX_KEY_CHARS))}

    def forget(self, plugin: str) -> None:
        """Drop everything of one plugin, of all tenants. For uninstalling."""
        for owner in [owner for owner in self._plugin_caches if owner[1] == plugin]:
            self._size -= self._plugin_caches.pop(owner).size

    def _store(self, owner: CacheOwner, key: str, entry: _CacheEntry) -> None:
        shelf = self._plugin_caches.setdefault(owner, _PluginCache())
        shelf.entries[key] = entry
        shelf.size += entry.size
        self._size += entry.size
        while shelf.size > self._limits.plugin_bytes:
            self._remove(owner, next(iter(shelf.entries)))
        while self._size > self._limits.total_bytes:
            # Whoever keeps most gives way, so that one plugin cannot empty the others' shelves.
            largest = max(self._plugin_caches, key=lambda one: self._plugin_caches[one].size)
            self._remove(largest, next(iter(self._plugin_caches[largest].entries)))

    def _remove(self, owner: CacheOwner, key: str) -> bool:
        shelf = self._plugin_caches.get(owner)
        entry = shelf.entries.pop(key, None) if shelf else None
        if shelf is None or entry is None:
            return False
        shelf.size -= entry.size
        self._size -= entry.size
        if not shelf.entries:
            del self._plugin_caches[owner]
        return True


def _owner(asking: CapabilityRequest) -> CacheOwner:
    return (asking.tenant, asking.plugin)
