"""The audit family: what a plugin wants remembered of what it did, in the ledger, beside the call that it did it in.

audit.write {action, details} → {written}

It is the plugin's word and marked so: nothing of it decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import encode_json_param, invalid_param, text_param
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock
from paddock.core.events.capabilities import PluginAudited
from paddock.core.events.event import EventSink
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.rate import RateWindow

MAX_ACTION_CHARS = 200
MAX_DETAILS_BYTES = 8_192
MAX_ENTRIES_PER_S = 50


class AuditService:
    """Hands entries on to the ledger.

    Args:
        publish_for: Where a tenant's events are recorded.
        clock: Says when a second is over.
    """

    def __init__(self, publish_for: Callable[[Tenant], EventSink], clock: Clock) -> None:
        self._publish_for = publish_for
        self._clock = clock
        self._windows: dict[tuple[str, str], RateWindow] = {}

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"audit.write": self.write}

    async def write(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, bool]:
        """Keep one entry; tells whether it was kept. Those over `ENTRIES_A_SECOND` are not.

        Raises:
            CallerError: the action is no text, or the details are no object, or too large.
        """
        action = text_param(params, "action", longest=MAX_ACTION_CHARS)
        details: Any = params.get("details", {})
        if not isinstance(details, dict):
            raise invalid_param("details", "must be an object")
        encode_json_param("details", details, MAX_DETAILS_BYTES)
        if not self._within_rate(asking):
            return {"written": False}
        call = asking.call
        self._publish_for(asking.tenant).publish(
            PluginAudited(
                name=asking.plugin,
                action=printable(action, MAX_ACTION_CHARS),
                details=cast("dict[str, Any]", details),
                request_id=call.request if call else None,
                principal=call.principal.id if call else None,
                call_id=asking.call_id,
            )
        )
        return {"written": True}

    def _within_rate(self, asking: CapabilityRequest) -> bool:
        window = self._windows.setdefault((asking.tenant, asking.plugin), RateWindow(MAX_ENTRIES_PER_S))
        return window.take(self._clock.monotonic())
