"""The record of what plugins asked for and did not get."""

from __future__ import annotations

import logging
from collections.abc import Callable

from paddock.capabilities.asking import Asking
from paddock.core.clock import Clock
from paddock.core.errors import Denied
from paddock.core.event import Publish
from paddock.core.events_capabilities import PluginCapabilityDenied, PluginDenialFlood
from paddock.core.events_host import PluginStorageDenied
from paddock.core.flow import RateWindow
from paddock.core.ids import Tenant
from paddock.policy.decision import Allow, Decision, Deny

_log = logging.getLogger("paddock.capabilities")

RECORDED_A_SECOND = 20  # for one plugin; a flood is one event more, and no reason to fill a disk


class Denials:
    """Publishes each denial as an event of its own, up to a number a second.

    Args:
        publisher: Where one tenant's events are recorded.
        clock: Says when a second is over.
    """

    def __init__(self, publisher: Callable[[Tenant], Publish], clock: Clock) -> None:
        self._publisher = publisher
        self._clock = clock
        self._windows: dict[tuple[Tenant, str], RateWindow] = {}

    def record(self, asking: Asking, method: str, denied: Denied, decision: Decision) -> None:
        """Note that this was refused: by the rules, or in spite of their yes."""
        events = self._publisher(asking.tenant)
        window = self._windows.setdefault((asking.tenant, asking.plugin), RateWindow(RECORDED_A_SECOND))
        if not window.take(self._clock.monotonic()):
            if window.just_exceeded:
                events.publish(PluginDenialFlood(name=asking.plugin, limit_per_second=RECORDED_A_SECOND))
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
