"""The audit events of what plugins ask the host for."""

from __future__ import annotations

from paddock.core.event import Event, event


@event("plugin.capability_denied")
class PluginCapabilityDenied(Event):
    """A plugin asked the host for something that it was not granted; `method` is without its namespace."""

    name: str
    method: str
    capability: str
    request_id: str | None


@event("plugin.denial_flood")
class PluginDenialFlood(Event):
    """A plugin was denied so often within a second that the rest of them is not recorded one by one."""

    name: str
    limit_per_second: int


@event("plugin.storage_dropped")
class PluginStorageDropped(Event):
    """A plugin's tables were dropped; each bears its full name."""

    name: str
    tables: tuple[str, ...]
