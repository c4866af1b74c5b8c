"""What plugins are refused, told in their own logs too: whoever wonders why one does not work looks there first."""

from __future__ import annotations

from paddock.core.event import Event, Publish
from paddock.core.events_capabilities import PluginCapabilityDenied, PluginDenialFlood
from paddock.core.events_host import PluginStorageDenied
from paddock.core.events_network import PluginNetDenied
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.host.log_files import log_name
from paddock.host.plugin_logs import PluginLogs


class LoggedRefusals:
    """A `Publish` that hands everything on and writes refusals down. How many there are is bounded by who publishes."""

    def __init__(self, publish: Publish, logs: PluginLogs, tenant: Tenant = DEFAULT_TENANT) -> None:
        self._publish = publish
        self._logs = logs
        self._tenant = tenant

    def publish(self, event: Event) -> None:
        self._publish.publish(event)
        told = refusal_of(event)
        if told is not None:
            plugin, words = told
            self._logs.write(log_name(self._tenant, plugin), f"[paddock] refused: {printable(words, 300)}")


def refusal_of(event: Event) -> tuple[str, str] | None:
    """Whose refusal an event is about, and what was refused in words; None for any other event."""
    match event:
        case PluginNetDenied():
            return event.name, _connection(event)
        case PluginCapabilityDenied():
            why = f" (not granted: {event.capability})" if event.capability else ""
            if event.policies:
                why = f" (forbidden: {', '.join(event.policies)})"
            return event.name, f"{event.method}{why}"
        case PluginStorageDenied():
            return event.name, f"a statement about what is not its own: {event.sql}"
        case PluginDenialFlood():
            return event.name, f"more than {event.limit_per_second} things within a second; the rest is not told"
        case _:
            return None


def _connection(event: PluginNetDenied) -> str:
    host = event.host or event.address or "a host"
    where = f"{host}:{event.port}" if event.port is not None else host
    again = f", {event.times} times more" if event.times > 1 else ""
    return f"connect to {where} ({event.reason.removeprefix('net.').replace('_', ' ')}{again})"
