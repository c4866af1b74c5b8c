"""Ledger records of plugins' capability requests, served and denied.

Requests within a call are counted for the call's own ledger entry. A request that a plugin makes on its own has no such
entry and gets one: the first at once, those within the following second as one entry with their number. Such requests
are counted separately for a process that is working on calls and one that is idle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock
from paddock.core.errors import Denied
from paddock.core.events.capabilities import PluginAsked, PluginCapabilityDenied, PluginDenialFlood
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import PluginStorageDenied
from paddock.core.ids import PluginName, Tenant
from paddock.core.rate import RateWindow
from paddock.policy.decision import Allow, Decision, Deny

_log = logging.getLogger("paddock.capabilities")

MAX_DENIALS_PER_S = 20  # per plugin; a flood is one more event and must not fill the disk
RECORD_INTERVAL_S = 1.0  # seconds between two entries of the same kind

_UsageKey: TypeAlias = tuple[Tenant, PluginName, str, bool]


class _UsageCount(Struct):
    timer: asyncio.TimerHandle
    count: int = 0  # requests since the last entry


class UsageRecorder:
    """Counts served requests and publishes the counts.

    Args:
        publisher: Returns the event sink of a tenant.
        interval_s: Seconds that one entry covers.
    """

    def __init__(self, publisher: Callable[[Tenant], EventSink], *, interval_s: float = RECORD_INTERVAL_S) -> None:
        self._publisher = publisher
        self._interval_s = interval_s
        self._counts: dict[_UsageKey, _UsageCount] = {}

    def record(self, request: CapabilityRequest, method: str) -> None:
        """Count a request that is about to be served."""
        if request.method_counts is not None:
            request.method_counts[method] = request.method_counts.get(method, 0) + 1
            return
        key = (request.tenant, request.plugin, method, request.process_effects is not None)
        usage = self._counts.get(key)
        if usage is None:
            self._publish(key, 1)
            self._counts[key] = _UsageCount(self._start_timer(key))
        else:
            usage.count += 1

    def close(self) -> None:
        """Publish the remaining counts; no request is served any more."""
        for key, usage in self._counts.items():
            usage.timer.cancel()
            if usage.count:
                self._publish(key, usage.count)
        self._counts.clear()

    def _interval_ended(self, key: _UsageKey) -> None:
        usage = self._counts[key]
        if not usage.count:
            del self._counts[key]
            return
        self._publish(key, usage.count)
        self._counts[key] = _UsageCount(self._start_timer(key))

    def _start_timer(self, key: _UsageKey) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._interval_s, self._interval_ended, key)

    def _publish(self, key: _UsageKey, count: int) -> None:
        tenant, plugin, method, underway = key
        self._publisher(tenant).publish(PluginAsked(name=plugin, method=method, count=count, underway=underway))


class DenialRecorder:
    """Publishes each denial as an event, up to a number per second.

    Args:
        publisher: Returns the event sink of a tenant.
        clock: Measures the rate.
    """

    def __init__(self, publisher: Callable[[Tenant], EventSink], clock: Clock) -> None:
        self._publisher = publisher
        self._clock = clock
        self._windows: dict[tuple[Tenant, str], RateWindow] = {}

    def record(self, request: CapabilityRequest, method: str, denied: Denied, decision: Decision) -> None:
        """Publish a denial, whether by the policy or after the policy allowed the request."""
        events = self._publisher(request.tenant)
        window = self._windows.setdefault((request.tenant, request.plugin), RateWindow(MAX_DENIALS_PER_S))
        if not window.take(self._clock.monotonic()):
            if window.just_exceeded:
                events.publish(PluginDenialFlood(name=request.plugin, limit_per_second=MAX_DENIALS_PER_S))
            return
        sql = denied.details.get("sql")
        if sql is not None:
            events.publish(PluginStorageDenied(name=request.plugin, sql=sql))
            return
        if isinstance(decision, Deny) and decision.public_reason:
            # Neither the plugin nor its caller learns what was blocked, so the operator must.
            facts = {"plugin": request.plugin, "method": method, "policies": ",".join(decision.policies)}
            _log.warning("a plugin was refused what a rule keeps quiet about", extra={"facts": facts})
        events.publish(
            PluginCapabilityDenied(
                name=request.plugin,
                method=method,
                capability=str(denied.details.get("capability", "")),
                request_id=request.call.request if request.call else None,
                policies=() if isinstance(decision, Allow) else decision.policies,
                policy_version=decision.version or None,
                call_id=request.call_id,
            )
        )
