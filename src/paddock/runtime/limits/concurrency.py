"""Limits concurrent calls per plugin, per tenant and in total.

No tenant may have more calls in flight than there are free slots. So the first few take as many as they may, the next
gets half of what they leave, and the one after that half of the rest: however greedy they are, a newcomer finds a slot.
"""

from __future__ import annotations

from collections import Counter

from paddock.core.errors import Busy
from paddock.core.ids import Tenant
from paddock.runtime.deployment import InstanceKey

MAX_CALLS_PER_PLUGIN = 64
MAX_CALLS_PER_TENANT = 128
MAX_CALLS = 512


class ConcurrencyLimiter:
    """Slots for calls: acquired when a call begins and released when it ends."""

    def __init__(self) -> None:
        self._by_tenant: Counter[Tenant] = Counter()
        self._total = 0

    def acquire(self, key: InstanceKey, in_flight: int) -> None:
        """Acquire a slot for a call to this plugin, which has `in_flight` calls already.

        Raises:
            Busy: there is none left.
        """
        tenant_calls = self._by_tenant[key.tenant]
        if (
            in_flight >= MAX_CALLS_PER_PLUGIN
            or tenant_calls >= MAX_CALLS_PER_TENANT
            or tenant_calls >= MAX_CALLS - self._total
        ):
            raise self._busy_error(key, in_flight, tenant_calls)
        self._by_tenant[key.tenant] = tenant_calls + 1
        self._total += 1

    def release(self, key: InstanceKey) -> None:
        self._by_tenant[key.tenant] -= 1
        self._total -= 1

    def _busy_error(self, key: InstanceKey, in_flight: int, tenant_calls: int) -> Busy:
        if in_flight >= MAX_CALLS_PER_PLUGIN:
            limit_text = f"{key.plugin} works on {in_flight} calls"
        elif tenant_calls >= MAX_CALLS_PER_TENANT:
            limit_text = f"{tenant_calls} calls of yours are under way"
        else:
            tenant_text = f", {tenant_calls} of them yours" if tenant_calls else ""
            limit_text = f"this host works on {self._total} calls{tenant_text}"
        return Busy(
            f"{limit_text} already", hint="try again when some of them are done", details={"plugin": key.plugin}
        )
