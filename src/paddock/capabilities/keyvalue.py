"""The keyvalue family: durable JSON values by key, in the host's own store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from paddock.capabilities.asking import Asking
from paddock.capabilities.door import Handler
from paddock.capabilities.json_bytes import encoded
from paddock.capabilities.keyvalue_rows import (
    LARGEST_VALUE,
    KeyValueLimits,
    delete_value,
    keys_of,
    put_value,
    value_of,
)
from paddock.capabilities.params import number, text, wrong
from paddock.core.clock import Clock
from paddock.store.database import Database

LONGEST_KEY = 512
LARGEST_PAGE = 1_000
USUAL_PAGE = 100


class KeyValue:
    """Values that outlive the plugin's process and the host's. Each put is durable when it is answered."""

    def __init__(self, database: Database, clock: Clock, limits: KeyValueLimits | None = None) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits or KeyValueLimits()

    def handlers(self) -> dict[str, Handler]:
        return {
            "keyvalue.get": self.get,
            "keyvalue.put": self.put,
            "keyvalue.delete": self.delete,
            "keyvalue.list": self.list,
        }

    async def get(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """`{value, found}`; the value is null where nothing was found."""
        key = text(params, "key", longest=LONGEST_KEY)
        kept = await self._database.read(lambda tx: value_of(tx, asking.tenant, asking.plugin, key))
        return {"value": None if kept is None else orjson.loads(kept), "found": kept is not None}

    async def put(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keep any JSON value under a key.

        Raises:
            CallerError: the key or the value is not acceptable, or the plugin keeps too much already.
        """
        key = text(params, "key", longest=LONGEST_KEY)
        if "value" not in params:
            raise wrong("value", "is missing")
        value = encoded("value", params["value"], LARGEST_VALUE).decode()
        at = self._clock.now().isoformat()
        limits = self._limits
        await self._database.write(
            lambda tx: put_value(tx, asking.tenant, asking.plugin, key, value, at=at, limits=limits)
        )
        return {}

    async def delete(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Forget a value; tells whether there was one."""
        key = text(params, "key", longest=LONGEST_KEY)
        gone = await self._database.write(lambda tx: delete_value(tx, asking.tenant, asking.plugin, key))
        return {"deleted": gone}

    async def list(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keys that begin with `prefix`, after the key `after`, at most `limit`: `{keys, next}`.

        `next` is what to pass as `after` for the following page; null when there is none.
        """
        prefix = text(params, "prefix", longest=LONGEST_KEY, default="")
        after = text(params, "after", longest=LONGEST_KEY, default="")
        limit = int(number(params, "limit", least=1, most=LARGEST_PAGE, default=USUAL_PAGE))
        found = await self._database.read(
            lambda tx: keys_of(tx, asking.tenant, asking.plugin, prefix=prefix, after=after, limit=limit + 1)
        )
        page = found[:limit]
        return {"keys": page, "next": page[-1] if len(found) > limit else None}
