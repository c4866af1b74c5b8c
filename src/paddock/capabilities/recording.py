"""The record of what plugins asked for and were served.

What is asked for in a call is counted for the call's own entry in the ledger. What a plugin asks for of its own accord
has no such entry and gets one: the first at once, those that follow within a second as one, with their number. What it
asks for so while it works on calls is counted apart from what it asks for while nobody wants anything of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock
from paddock.core.errors import Denied
from paddock.core.events.capabilities import PluginAsked, PluginCapabilityDenied, PluginDenialFlood
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import PluginStorageDenied
from paddock.core.ids import PluginName, Tenant
from paddock.core.rate import RateWindow
from paddock.policy.decision import Allow, Decision, Deny

RECORD_INTERVAL_S = 1.0  # seconds between two entries about the same

_UsageKey: TypeAlias = tuple[Tenant, PluginName, str, bool]


@dataclass(slots=True)
class _UsageCount:
    timer: asyncio.TimerHandle
    count: int = 0  # since the last entry


class UsageRecorder:
    """Counts, and publishes the counts.

    Args:
        publisher: Where one tenant's events are recorded.
        every: How many seconds one entry stands for.
    """

    def __init__(self, publisher: Callable[[Tenant], EventSink], *, every: float = RECORD_INTERVAL_S) -> None:
        self._publisher = publisher
        self._every = every
        self._counting: dict[_UsageKey, _UsageCount] = {}

    def record(self, asking: CapabilityRequest, method: str) -> None:
        """Note that this is about to be served."""
        if asking.method_counts is not None:
            asking.method_counts[method] = asking.method_counts.get(method, 0) + 1
            return
        same = (asking.tenant, asking.plugin, method, asking.process_effects is not None)
        counting = self._counting.get(same)
        if counting is None:
            self._publish(same, 1)
            self._counting[same] = _UsageCount(self._start_timer(same))
        else:
            counting.count += 1

    def close(self) -> None:
        """Record what was counted so far; nothing is served any more."""
        for same, counting in self._counting.items():
            counting.timer.cancel()
            if counting.count:
                self._publish(same, counting.count)
        self._counting.clear()

    def _interval_ended(self, same: _UsageKey) -> None:
        counting = self._counting[same]
        if not counting.count:
            del self._counting[same]
            return
        self._publish(same, counting.count)
        self._counting[same] = _UsageCount(self._start_timer(same))

    def _start_timer(self, same: _UsageKey) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._every, self._interval_ended, same)

    def _publish(self, same: _UsageKey, count: int) -> None:
        tenant, plugin, method, underway = same
        self._publisher(tenant).publish(PluginAsked(name=plugin, method=method, count=count, underway=underway))


_log = logging.getLogger("paddock.capabilities")

MAX_DENIALS_PER_S = 20  # for one plugin; a flood is one event more, and no reason to fill a disk


class DenialRecorder:
    """Publishes each denial as an event of its own, up to a number a second.

    Args:
        publisher: Where one tenant's events are recorded.
        clock: Says when a second is over.
    """

    def __init__(self, publisher: Callable[[Tenant], EventSink], clock: Clock) -> None:
        self._publisher = publisher
        self._clock = clock
        self._windows: dict[tuple[Tenant, str], RateWindow] = {}

    def record(self, asking: CapabilityRequest, method: str, denied: Denied, decision: Decision) -> None:
        """Note that this was refused: by the rules, or in spite of their yes."""
        events = self._publisher(asking.tenant)
        window = self._windows.setdefault((asking.tenant, asking.plugin), RateWindow(MAX_DENIALS_PER_S))
        if not window.take(self._clock.monotonic()):
            if window.just_exceeded:
                events.publish(PluginDenialFlood(name=asking.plugin, limit_per_second=MAX_DENIALS_PER_S))
            return
        sql = denied.details.get("sql")
        if sql is not None:
            events.publish(PluginStorageDenied(name=asking.plugin, sql=sql))
            return
        if isinstance(decision, Deny) and decision.public_reason:
            # Neither the plugin nor whoever called it is told what was blocked: somebody has to be.
            facts = {"plugin": asking.plugin, "method": method, "policies": ",".join(decision.policies)}
            _log.warning("a plugin was refused what a rule keeps quiet about", extra={"facts": facts})
        events.publish(
            PluginCapabilityDenied(
                name=asking.plugin,
                method=method,
                capability=str(denied.details.get("capability", "")),
                request_id=asking.call.request if asking.call else None,
                policies=() if isinstance(decision, Allow) else decision.policies,
                policy_version=decision.version or None,
                call_id=asking.call_id,
            )
        )
