"""The rate family: a plugin that must not do something too often asks here first, and is told how long to wait.

rate.limit {bucket, cost, per_minute} → {allowed, retry_after}

A bucket holds a minute's worth and fills as time passes. It is the plugin's own, for each tenant, and forgotten when
the host ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import invalid_param, number_param, text_param
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock
from paddock.core.rate import TokenBucketState, seconds_until_available

DEFAULT_PER_MINUTE = 60.0
MAX_PER_MINUTE = 60_000.0
MAX_BUCKET_NAME_CHARS = 128
MAX_BUCKETS = 256  # of one plugin; the one not asked for longest goes first, full as it will be


class RateLimitService:
    """The buckets of all plugins.

    Args:
        clock: Fills them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], OrderedDict[str, TokenBucketState]] = {}

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"rate.limit": self.limit}

    async def limit(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take so much out of a bucket, or say how long it takes until there is as much in it.

        Raises:
            CallerError: a parameter is wrong, or more is wanted than the bucket can ever hold.
        """
        name = text_param(params, "bucket", longest=MAX_BUCKET_NAME_CHARS)
        a_minute = number_param(params, "per_minute", least=1, most=MAX_PER_MINUTE, default=DEFAULT_PER_MINUTE)
        cost = number_param(params, "cost", least=0, most=MAX_PER_MINUTE, default=1)
        if cost > a_minute:
            raise invalid_param(
                "cost", f"is more than the {a_minute:g} that the bucket holds", "ask for less, or a larger one"
            )
        own = self._buckets.setdefault((asking.tenant, asking.plugin), OrderedDict())
        now = self._clock.monotonic()
        left = own.pop(name, TokenBucketState(a_minute, now)).available(a_minute, now)
        allowed = left >= cost
        own[name] = TokenBucketState(left - cost if allowed else left, now)
        if len(own) > MAX_BUCKETS:
            own.popitem(last=False)
        return {"allowed": allowed, "retry_after": 0.0 if allowed else seconds_until_available(cost, left, a_minute)}

    def forget(self, plugin: str) -> None:
        """Drop what is known of a plugin that was uninstalled."""
        for key in [key for key in self._buckets if key[1] == plugin]:
            del self._buckets[key]
