"""The cache service: short-lived values in memory, separate for each plugin.

A value may vanish at any time: when it expires, when its plugin or all plugins together exceed their limit, and when
the host restarts. Values that must last belong in keyvalue or storage.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson
from msgspec import Struct, field

from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import encode_json_param, invalid_param, number_param, text_param
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock

MAX_KEY_CHARS = 512
MAX_VALUE_BYTES = 1 << 20
DEFAULT_TTL_S = 300.0
MAX_TTL_S = 86_400.0
_ENTRY_OVERHEAD_BYTES = 200  # overhead of an entry beside its key and value

CacheOwner: TypeAlias = tuple[str, str]


class CacheLimits(Struct, frozen=True):
    """Size limits in bytes."""

    plugin_bytes: int = 8 << 20
    total_bytes: int = 64 << 20


class _CacheEntry(Struct, frozen=True):
    value: bytes
    expires_at: float
    size: int


class _PluginCache(Struct):
    """One plugin's entries, least recently used first."""

    entries: OrderedDict[str, _CacheEntry] = field(default_factory=OrderedDict[str, _CacheEntry])
    size: int = 0


class CacheService:
    """In-memory values with a time to live. Needs no timer: expired values are removed when they are read."""

    def __init__(self, clock: Clock, limits: CacheLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or CacheLimits()
        self._plugin_caches: dict[CacheOwner, _PluginCache] = {}
        self._size = 0

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"cache.get": self.get, "cache.set": self.set, "cache.delete": self.delete}

    async def get(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return `{value, found}`; the value is null if the key is missing or expired."""
        key = text_param(params, "key", max_chars=MAX_KEY_CHARS)
        owner = _owner(request)
        plugin_cache = self._plugin_caches.get(owner)
        entry = plugin_cache.entries.get(key) if plugin_cache else None
        if plugin_cache is None or entry is None:
            return {"value": None, "found": False}
        if entry.expires_at <= self._clock.monotonic():
            self._remove(owner, key)
            return {"value": None, "found": False}
        plugin_cache.entries.move_to_end(key)
        return {"value": orjson.loads(entry.value), "found": True}

    async def set(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Store a value for `ttl` seconds and return the seconds.

        Raises:
            CallerError: the key, the value or the time to live is invalid.
        """
        key = text_param(params, "key", max_chars=MAX_KEY_CHARS)
        if "value" not in params:
            raise invalid_param("value", "is missing")
        ttl = number_param(params, "ttl", minimum=0.001, maximum=MAX_TTL_S, default=DEFAULT_TTL_S)
        value = encode_json_param("value", params["value"], MAX_VALUE_BYTES)
        owner = _owner(request)
        self._remove(owner, key)
        self._store(
            owner, key, _CacheEntry(value, self._clock.monotonic() + ttl, len(value) + len(key) + _ENTRY_OVERHEAD_BYTES)
        )
        return {"ttl": ttl}

    async def delete(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Delete a value and return whether there was one."""
        return {"deleted": self._remove(_owner(request), text_param(params, "key", max_chars=MAX_KEY_CHARS))}

    def forget(self, plugin: str) -> None:
        """Delete all values of an uninstalled plugin, for all tenants."""
        for owner in [owner for owner in self._plugin_caches if owner[1] == plugin]:
            self._size -= self._plugin_caches.pop(owner).size

    def _store(self, owner: CacheOwner, key: str, entry: _CacheEntry) -> None:
        plugin_cache = self._plugin_caches.setdefault(owner, _PluginCache())
        plugin_cache.entries[key] = entry
        plugin_cache.size += entry.size
        self._size += entry.size
        while plugin_cache.size > self._limits.plugin_bytes:
            self._remove(owner, next(iter(plugin_cache.entries)))
        while self._size > self._limits.total_bytes:
            # Evict from the largest cache, so that one plugin cannot push out the others' values.
            largest = max(self._plugin_caches, key=lambda owner: self._plugin_caches[owner].size)
            self._remove(largest, next(iter(self._plugin_caches[largest].entries)))

    def _remove(self, owner: CacheOwner, key: str) -> bool:
        plugin_cache = self._plugin_caches.get(owner)
        entry = plugin_cache.entries.pop(key, None) if plugin_cache else None
        if plugin_cache is None or entry is None:
            return False
        plugin_cache.size -= entry.size
        self._size -= entry.size
        if not plugin_cache.entries:
            del self._plugin_caches[owner]
        return True


def _owner(request: CapabilityRequest) -> CacheOwner:
    return (request.tenant, request.plugin)
