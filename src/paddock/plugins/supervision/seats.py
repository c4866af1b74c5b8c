"""How many calls may be under way: for one plugin, for one tenant, and in all.

No tenant may have more under way than there are seats left. So the first few take as many as they may, the next gets
half of what they leave, and the one after that half of the rest: however greedy they are, a newcomer finds a seat.
"""

from __future__ import annotations

from collections import Counter

from paddock.core.errors import Busy
from paddock.core.ids import Tenant
from paddock.plugins.supervision.deployment import InstanceKey

PER_PLUGIN = 64
PER_TENANT = 128
IN_ALL = 512


class Seats:
    """Taken when a call begins and given back when it ends."""

    def __init__(self) -> None:
        self._by_tenant: Counter[Tenant] = Counter()
        self._in_all = 0

    def take(self, key: InstanceKey, in_flight: int) -> None:
        """Take a seat for a call to this plugin, which has so many under way.

        Raises:
            Busy: there is none left.
        """
        of_tenant = self._by_tenant[key.tenant]
        if in_flight >= PER_PLUGIN or of_tenant >= PER_TENANT or of_tenant >= IN_ALL - self._in_all:
            raise self._full(key, in_flight, of_tenant)
        self._by_tenant[key.tenant] = of_tenant + 1
        self._in_all += 1

    def leave(self, key: InstanceKey) -> None:
        self._by_tenant[key.tenant] -= 1
        self._in_all -= 1

    def _full(self, key: InstanceKey, in_flight: int, of_tenant: int) -> Busy:
        if in_flight >= PER_PLUGIN:
            what = f"{key.plugin} works on {in_flight} calls"
        elif of_tenant >= PER_TENANT:
            what = f"{of_tenant} calls of yours are under way"
        else:
            yours = f", {of_tenant} of them yours" if of_tenant else ""
            what = f"this host works on {self._in_all} calls{yours}"
        return Busy(f"{what} already", hint="try again when some of them are done", details={"plugin": key.plugin})
