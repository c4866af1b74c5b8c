"""Which ended calls a host keeps: the most recent ones, bounded in number and size, and fair between tenants."""

from __future__ import annotations

from collections import Counter, deque

from paddock.core.ids import CallId, Tenant

MAX_ENDED_CALLS = 1_000
MAX_ENDED_BYTES = 64 * 1024 * 1024  # results and events of ended calls


class RecentCalls:
    """The ended calls of all tenants, by tenant in the order in which they ended."""

    def __init__(self) -> None:
        self._calls: dict[Tenant, deque[tuple[CallId, int]]] = {}
        self._bytes_for: Counter[Tenant] = Counter()
        self._bytes = 0
        self._count = 0

    def add(self, tenant: Tenant, call: CallId, size: int) -> list[CallId]:
        """Add a call that ended, with the bytes it takes. Returns the older calls that are not kept any more.

        The tenant that has the most loses its oldest, so that no tenant can evict the calls of another.
        """
        self._calls.setdefault(tenant, deque()).append((call, size))
        self._bytes_for[tenant] += size
        self._bytes += size
        self._count += 1
        evicted: list[CallId] = []
        while self._count > MAX_ENDED_CALLS:
            only_tenant = len(self._calls) == 1
            evicted.append(self._pop_oldest(tenant if only_tenant else max(self._calls, key=self._count_for)))
        while self._bytes > MAX_ENDED_BYTES:
            older = [one for one, calls in self._calls.items() if len(calls) > (one == tenant)]
            if not older:
                break  # this call alone exceeds the limit, and stays for its caller
            evicted.append(self._pop_oldest(max(older, key=self._bytes_for.__getitem__)))
        return evicted

    def _count_for(self, tenant: Tenant) -> int:
        return len(self._calls[tenant])

    def _pop_oldest(self, tenant: Tenant) -> CallId:
        oldest, size = self._calls[tenant].popleft()
        self._bytes_for[tenant] -= size
        self._bytes -= size
        self._count -= 1
        if not self._calls[tenant]:
            del self._calls[tenant], self._bytes_for[tenant]
        return oldest
