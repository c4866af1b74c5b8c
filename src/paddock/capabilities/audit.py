"""The audit family: what a plugin wants remembered of what it did, in the ledger, beside the call that it did it in.

audit.write {action, details} → {written}

It is the plugin's word and marked so: nothing of it decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from paddock.capabilities.asking import Asking
from paddock.capabilities.door import Handler
from paddock.capabilities.json_bytes import encoded
from paddock.capabilities.params import text, wrong
from paddock.core.clock import Clock
from paddock.core.event import Publish
from paddock.core.events_capabilities import PluginAudited
from paddock.core.flow import RateWindow
from paddock.core.ids import Tenant
from paddock.core.printable import printable

LONGEST_ACTION = 200
LARGEST_DETAILS = 8_192
ENTRIES_A_SECOND = 50


class Audit:
    """Hands entries on to the ledger.

    Args:
        publish_for: Where a tenant's events are recorded.
        clock: Says when a second is over.
    """

    def __init__(self, publish_for: Callable[[Tenant], Publish], clock: Clock) -> None:
        self._publish_for = publish_for
        self._clock = clock
        self._windows: dict[tuple[str, str], RateWindow] = {}

    def handlers(self) -> dict[str, Handler]:
        return {"audit.write": self.write}

    async def write(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, bool]:
        """Keep one entry; tells whether it was kept. Those over `ENTRIES_A_SECOND` are not.

        Raises:
            CallerError: the action is no text, or the details are no object, or too large.
        """
        action = text(params, "action", longest=LONGEST_ACTION)
        details: Any = params.get("details", {})
        if not isinstance(details, dict):
            raise wrong("details", "must be an object")
        encoded("details", details, LARGEST_DETAILS)
        if not self._within_rate(asking):
            return {"written": False}
        call = asking.call
        self._publish_for(asking.tenant).publish(
            PluginAudited(
                name=asking.plugin,
                action=printable(action, LONGEST_ACTION),
                details=cast("dict[str, Any]", details),
                request_id=call.request if call else None,
                principal=call.principal.id if call else None,
                call_id=asking.call_id,
            )
        )
        return {"written": True}

    def _within_rate(self, asking: Asking) -> bool:
        window = self._windows.setdefault((asking.tenant, asking.plugin), RateWindow(ENTRIES_A_SECOND))
        return window.take(self._clock.monotonic())
