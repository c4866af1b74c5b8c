"""The rate service: token buckets with which a plugin limits how often it does something.

rate.limit {bucket, cost, per_minute} → {allowed, retry_after}

A bucket holds one minute's worth of tokens and refills over time. Buckets are separate for each plugin and tenant, and
are lost when the host ends.
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
MAX_BUCKETS = 256  # per plugin; the least recently used, refilled by then, is dropped first


class RateLimitService:
    """The token buckets of all plugins.

    Args:
        clock: Refills them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], OrderedDict[str, TokenBucketState]] = {}

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"rate.limit": self.limit}

    async def limit(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take tokens out of a bucket, or return how long it takes until it holds enough.

        Raises:
            CallerError: a parameter is invalid, or the cost exceeds the bucket's capacity.
        """
        name = text_param(params, "bucket", max_chars=MAX_BUCKET_NAME_CHARS)
        per_minute = number_param(params, "per_minute", minimum=1, maximum=MAX_PER_MINUTE, default=DEFAULT_PER_MINUTE)
        cost = number_param(params, "cost", minimum=0, maximum=MAX_PER_MINUTE, default=1)
        if cost > per_minute:
            raise invalid_param(
                "cost", f"is more than the {per_minute:g} that the bucket holds", "ask for less, or a larger one"
            )
        buckets = self._buckets.setdefault((request.tenant, request.plugin), OrderedDict())
        now = self._clock.monotonic()
        available = buckets.pop(name, TokenBucketState(per_minute, now)).available(per_minute, now)
        allowed = available >= cost
        buckets[name] = TokenBucketState(available - cost if allowed else available, now)
        if len(buckets) > MAX_BUCKETS:
            buckets.popitem(last=False)
        return {
            "allowed": allowed,
            "retry_after": 0.0 if allowed else seconds_until_available(cost, available, per_minute),
        }

    def forget(self, plugin: str) -> None:
        """Drop the buckets of an uninstalled plugin."""
        for key in [key for key in self._buckets if key[1] == plugin]:
            del self._buckets[key]
