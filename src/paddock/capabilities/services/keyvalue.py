"""The keyvalue family: durable JSON values by key, in the host's own store."""

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
    """Values that outlive the plugin's process and the host's. Each put is durable when it is answered."""

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

    async def get(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """`{value, found}`; the value is null where nothing was found."""
        key = text_param(params, "key", longest=MAX_KEY_CHARS)
        kept = await self._database.read(lambda tx: get_value(tx, asking.tenant, asking.plugin, key))
        return {"value": None if kept is None else orjson.loads(kept), "found": kept is not None}

    async def put(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keep any JSON value under a key.

        Raises:
            CallerError: the key or the value is not acceptable, or the plugin keeps too much already.
        """
        key = text_param(params, "key", longest=MAX_KEY_CHARS)
        if "value" not in params:
            raise invalid_param("value", "is missing")
        value = encode_json_param("value", params["value"], MAX_VALUE_BYTES).decode()
        at = self._clock.now().isoformat()
        limits = self._limits
        await self._database.write(
            lambda tx: put_value(tx, asking.tenant, asking.plugin, key, value, at=at, limits=limits)
        )
        return {}

    async def delete(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Forget a value; tells whether there was one."""
        key = text_param(params, "key", longest=MAX_KEY_CHARS)
        gone = await self._database.write(lambda tx: delete_value(tx, asking.tenant, asking.plugin, key))
        return {"deleted": gone}

    async def list(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keys that begin with `prefix`, after the key `after`, at most `limit`: `{keys, next}`.

        `next` is what to pass as `after` for the following page; null when there is none.
        """
        prefix = text_param(params, "prefix", longest=MAX_KEY_CHARS, default="")
        after = text_param(params, "after", longest=MAX_KEY_CHARS, default="")
        limit = int(number_param(params, "limit", least=1, most=MAX_PAGE_KEYS, default=DEFAULT_PAGE_KEYS))
        found = await self._database.read(
            lambda tx: list_keys(tx, asking.tenant, asking.plugin, prefix=prefix, after=after, limit=limit + 1)
        )
        page = found[:limit]
        return {"keys": page, "next": page[-1] if len(found) > limit else None}
