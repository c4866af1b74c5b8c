"""Audit events of the capabilities that plugins use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.core.events.event import Event, event


@event("plugin.capability_denied")
class PluginCapabilityDenied(Event):
    """A plugin asked the host for something that it was not granted, or that the rules forbid it.

    `method` is without its namespace; `policies` are the rules that forbid it.
    """

    name: str
    method: str
    capability: str
    request_id: str | None
    policies: tuple[str, ...] = ()
    policy_version: str | None = None
    call_id: str | None = None


@event("plugin.asked")
class PluginAsked(Event):
    """A plugin asked the host for something of its own accord, so often since the last such entry.

    What it asks for while it serves a call is counted in the `metrics` of that call's `call.ended`. `underway` says
    that it worked on calls at that time and named none of them.
    """

    name: str
    method: str
    count: int
    underway: bool = False


@event("plugin.audited")
class PluginAudited(Event):
    """A plugin wanted this remembered of what it did. Its own word, which nobody checked."""

    name: str
    action: str
    details: Mapping[str, Any]
    request_id: str | None
    principal: str | None
    call_id: str | None = None


@event("plugin.fetched")
class PluginFetched(Event):
    """A plugin sent a request to a web service through the host; each redirect that was followed is one of its own.

    `method` is that of HTTP, `times` how often it was sent until it was answered or given up. `status` is null where
    no answer came, and `error_code` says why. What was asked for there, and what was sent, is not kept.
    """

    name: str
    method: str
    host: str
    port: int
    status: int | None
    bytes_up: int
    bytes_down: int
    duration_ms: float
    times: int
    error_code: str | None
    request_id: str | None
    call_id: str | None = None


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
