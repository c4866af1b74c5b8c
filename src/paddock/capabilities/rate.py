"""The rate family: a plugin that must not do something too often asks here first, and is told how long to wait.

rate.limit {bucket, cost, per_minute} → {allowed, retry_after}

A bucket holds a minute's worth and fills as time passes. It is the plugin's own, for each tenant, and forgotten when
the host ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from paddock.capabilities.asking import Asking
from paddock.capabilities.door import Handler
from paddock.capabilities.params import number, text, wrong
from paddock.core.clock import Clock
from paddock.core.flow import Bucket, wait_for

USUAL = 60.0
MOST_A_MINUTE = 60_000.0
LONGEST_NAME = 128
MOST_BUCKETS = 256  # of one plugin; the one not asked for longest goes first, full as it will be


class Rate:
    """The buckets of all plugins.

    Args:
        clock: Fills them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], OrderedDict[str, Bucket]] = {}

    def handlers(self) -> dict[str, Handler]:
        return {"rate.limit": self.limit}

    async def limit(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take so much out of a bucket, or say how long it takes until there is as much in it.

        Raises:
            CallerError: a parameter is wrong, or more is wanted than the bucket can ever hold.
        """
        name = text(params, "bucket", longest=LONGEST_NAME)
        a_minute = number(params, "per_minute", least=1, most=MOST_A_MINUTE, default=USUAL)
        cost = number(params, "cost", least=0, most=MOST_A_MINUTE, default=1)
        if cost > a_minute:
            raise wrong("cost", f"is more than the {a_minute:g} that the bucket holds", "ask for less, or a larger one")
        own = self._buckets.setdefault((asking.tenant, asking.plugin), OrderedDict())
        now = self._clock.monotonic()
        left = own.pop(name, Bucket(a_minute, now)).filled(a_minute, now)
        allowed = left >= cost
        own[name] = Bucket(left - cost if allowed else left, now)
        if len(own) > MOST_BUCKETS:
            own.popitem(last=False)
        return {"allowed": allowed, "retry_after": 0.0 if allowed else wait_for(cost, left, a_minute)}

    def forget(self, plugin: str) -> None:
        """Drop what is known of a plugin that was uninstalled."""
        for key in [key for key in self._buckets if key[1] == plugin]:
            del self._buckets[key]
