"""The audit service: a plugin's own entries in the ledger, beside the call that it works on.

audit.write {action, details} → {written}

An entry is the plugin's claim and marked as such: no decision depends on it.
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
    """Publishes plugins' audit entries to the ledger.

    Args:
        publish_for: Returns the event sink of a tenant.
        clock: Measures the rate.
    """

    def __init__(self, publish_for: Callable[[Tenant], EventSink], clock: Clock) -> None:
        self._publish_for = publish_for
        self._clock = clock
        self._windows: dict[tuple[str, str], RateWindow] = {}

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"audit.write": self.write}

    async def write(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, bool]:
        """Publish one entry and return whether it was accepted; entries over `MAX_ENTRIES_PER_S` are dropped.

        Raises:
            CallerError: the action is not text, or the details are not an object or too large.
        """
        action = text_param(params, "action", max_chars=MAX_ACTION_CHARS)
        details: Any = params.get("details", {})
        if not isinstance(details, dict):
            raise invalid_param("details", "must be an object")
        encode_json_param("details", details, MAX_DETAILS_BYTES)
        if not self._within_rate(request):
            return {"written": False}
        call = request.call
        self._publish_for(request.tenant).publish(
            PluginAudited(
                name=request.plugin,
                action=printable(action, MAX_ACTION_CHARS),
                details=cast("dict[str, Any]", details),
                request_id=call.request if call else None,
                principal=call.principal.id if call else None,
                call_id=request.call_id,
            )
        )
        return {"written": True}

    def _within_rate(self, request: CapabilityRequest) -> bool:
        window = self._windows.setdefault((request.tenant, request.plugin), RateWindow(MAX_ENTRIES_PER_S))
        return window.take(self._clock.monotonic())
