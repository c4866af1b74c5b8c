"""The record of what plugins asked for and were served.

What is asked for in a call is counted for the call's own entry in the ledger. What a plugin asks for of its own accord
has no such entry and gets one: the first at once, those that follow within a second as one, with their number. What it
asks for so while it works on calls is counted apart from what it asks for while nobody wants anything of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from paddock.capabilities.asking import Asking
from paddock.core.event import Publish
from paddock.core.events_capabilities import PluginAsked
from paddock.core.ids import PluginName, Tenant

EVERY = 1.0  # seconds between two entries about the same

_Same: TypeAlias = tuple[Tenant, PluginName, str, bool]


@dataclass(slots=True)
class _Counting:
    timer: asyncio.TimerHandle
    count: int = 0  # since the last entry


class Asked:
    """Counts, and publishes the counts.

    Args:
        publisher: Where one tenant's events are recorded.
        every: How many seconds one entry stands for.
    """

    def __init__(self, publisher: Callable[[Tenant], Publish], *, every: float = EVERY) -> None:
        self._publisher = publisher
        self._every = every
        self._counting: dict[_Same, _Counting] = {}

    def note(self, asking: Asking, method: str) -> None:
        """Note that this is about to be served."""
        if asking.tally is not None:
            asking.tally[method] = asking.tally.get(method, 0) + 1
            return
        same = (asking.tenant, asking.plugin, method, asking.underway is not None)
        counting = self._counting.get(same)
        if counting is None:
            self._publish(same, 1)
            self._counting[same] = _Counting(self._later(same))
        else:
            counting.count += 1

    def close(self) -> None:
        """Record what was counted so far; nothing is served any more."""
        for same, counting in self._counting.items():
            counting.timer.cancel()
            if counting.count:
                self._publish(same, counting.count)
        self._counting.clear()

    def _second_over(self, same: _Same) -> None:
        counting = self._counting[same]
        if not counting.count:
            del self._counting[same]
            return
        self._publish(same, counting.count)
        self._counting[same] = _Counting(self._later(same))

    def _later(self, same: _Same) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._every, self._second_over, same)

    def _publish(self, same: _Same, count: int) -> None:
        tenant, plugin, method, underway = same
        self._publisher(tenant).publish(PluginAsked(name=plugin, method=method, count=count, underway=underway))
