"""Slots for the calls that run at the same time on one host."""

from __future__ import annotations

from collections import Counter

from paddock.core.errors import Busy
from paddock.core.ids import CallId, Tenant

MAX_RUNNING_CALLS = 512


class CallSlots:
    """Bounds the calls that run at the same time. No tenant may use more slots than it leaves to all others."""

    def __init__(self) -> None:
        self._tenants: dict[CallId, Tenant] = {}  # of the calls that hold a slot
        self._used_by: Counter[Tenant] = Counter()

    def __len__(self) -> int:
        """Number of slots in use."""
        return len(self._tenants)

    def require_free(self, tenant: Tenant) -> None:
        """Require that a call of this tenant may take a slot.

        Raises:
            Busy: too many calls are running.
        """
        if self._used_by[tenant] >= MAX_RUNNING_CALLS - len(self):
            raise Busy(f"{len(self)} calls are running already", hint="try again when some of them are done")

    def acquire(self, call: CallId, tenant: Tenant) -> None:
        """Take a slot for a call, also beyond the limit: a call that was approved is made."""
        self._tenants[call] = tenant
        self._used_by[tenant] += 1

    def release(self, call: CallId) -> None:
        """Give the slot of a call back, if it holds one."""
        if (tenant := self._tenants.pop(call, None)) is not None:
            self._used_by[tenant] -= 1
