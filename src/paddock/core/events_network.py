"""The audit events of a plugin's network: what it connected to, and what it was kept from."""

from __future__ import annotations

from paddock.core.event import Event, event


@event("plugin.net_connected")
class PluginNetConnected(Event):
    """A connection that a plugin was allowed has ended, or could not be made; the error says why."""

    name: str
    cage_id: str
    host: str
    port: int
    address: str | None
    bytes_up: int
    bytes_down: int
    duration_ms: float
    error: str | None


@event("plugin.net_denied")
class PluginNetDenied(Event):
    """A plugin tried to reach what it may not. Repeats within a minute are one event with their number."""

    name: str
    cage_id: str
    host: str
    address: str | None
    port: int | None
    reason: str
    times: int


@event("plugin.connected")
class PluginConnected(Event):
    """A plugin that is a server elsewhere was connected to. It has no process and no cage here."""

    name: str
    version: str
    host: str
