"""The keyvalue service: durable JSON values by key, in the host's own store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import encode_json_param, invalid_param, number_param, text_param
from paddock.capabilities.request import CapabilityRequest
from paddock.capabilities.services.keyvalue_rows import (
    MAX_VALUE_BYTES,
    KeyValueLimits,
    delete_value,
    get_value,
    list_keys,
    put_value,
)
from paddock.core.clock import Clock
from paddock.store.database import Database

MAX_KEY_CHARS = 512
MAX_PAGE_KEYS = 1_000
DEFAULT_PAGE_KEYS = 100


class KeyValueService:
    """Values that outlive the processes of the plugin and the host. A put is durable once it returns."""

    def __init__(self, database: Database, clock: Clock, limits: KeyValueLimits | None = None) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits or KeyValueLimits()

    def handlers(self) -> dict[str, ServiceHandler]:
        return {
            "keyvalue.get": self.get,
            "keyvalue.put": self.put,
            "keyvalue.delete": self.delete,
            "keyvalue.list": self.list,
        }

    async def get(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return `{value, found}`; the value is null if the key is missing."""
        key = text_param(params, "key", max_chars=MAX_KEY_CHARS)
        value = await self._database.read(lambda tx: get_value(tx, request.tenant, request.plugin, key))
        return {"value": None if value is None else orjson.loads(value), "found": value is not None}

    async def put(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Store a JSON value under a key.

        Raises:
            CallerError: the key or the value is invalid, or the plugin's quota is exhausted.
        """
        key = text_param(params, "key", max_chars=MAX_KEY_CHARS)
        if "value" not in params:
            raise invalid_param("value", "is missing")
        value = encode_json_param("value", params["value"], MAX_VALUE_BYTES).decode()
        now = self._clock.now().isoformat()
        limits = self._limits
        await self._database.write(
            lambda tx: put_value(tx, request.tenant, request.plugin, key, value, changed_at=now, limits=limits)
        )
        return {}

    async def delete(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Delete a value and return whether there was one."""
        key = text_param(params, "key", max_chars=MAX_KEY_CHARS)
        deleted = await self._database.write(lambda tx: delete_value(tx, request.tenant, request.plugin, key))
        return {"deleted": deleted}

    async def list(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return `{keys, next}`: at most `limit` keys that begin with `prefix` and come after `after`.

        `next` is the `after` of the following page; null if this is the last one.
        """
        prefix = text_param(params, "prefix", max_chars=MAX_KEY_CHARS, default="")
        after = text_param(params, "after", max_chars=MAX_KEY_CHARS, default="")
        limit = int(number_param(params, "limit", minimum=1, maximum=MAX_PAGE_KEYS, default=DEFAULT_PAGE_KEYS))
        keys = await self._database.read(
            lambda tx: list_keys(tx, request.tenant, request.plugin, prefix=prefix, after=after, limit=limit + 1)
        )
        page = keys[:limit]
        return {"keys": page, "next": page[-1] if len(keys) > limit else None}
