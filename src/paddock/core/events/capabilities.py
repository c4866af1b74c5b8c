"""Audit events of the capabilities that plugins use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.core.events.event import Event, event


@event("plugin.capability_denied")
class PluginCapabilityDenied(Event, frozen=True):
    """A plugin requested a capability that is not granted or that a policy forbids.

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
class PluginAsked(Event, frozen=True):
    """A plugin used host methods outside of calls; `count` is how often since the last entry.

    Host methods used during a call are counted in the `metrics` of its `call.ended`. `underway` says that the plugin
    was working on calls and named none of them.
    """

    name: str
    method: str
    count: int
    underway: bool = False


@event("plugin.audited")
class PluginAudited(Event, frozen=True):
    """A plugin reported an action of its own. The host did not verify it."""

    name: str
    action: str
    details: Mapping[str, Any]
    request_id: str | None
    principal: str | None
    call_id: str | None = None


@event("plugin.fetched")
class PluginFetched(Event, frozen=True):
    """A plugin sent an HTTP request through the host. Each redirect is an entry of its own.

    `method` is the HTTP method, `times` the number of attempts. `status` is null if no response came, and
    `error_code` says why. The path and the body are not stored.
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
class PluginDenialFlood(Event, frozen=True):
    """A plugin exceeded the limit of recorded denials per second; further ones are not recorded one by one."""

    name: str
    limit_per_second: int


@event("plugin.net_connected")
class PluginNetConnected(Event, frozen=True):
    """An allowed connection of a plugin closed, or could not be opened; `error` says why."""

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
class PluginNetDenied(Event, frozen=True):
    """A plugin tried to reach a host without a grant. Repetitions within a minute are one entry, counted in `times`."""

    name: str
    cage_id: str
    host: str
    address: str | None
    port: int | None
    reason: str
    times: int


@event("plugin.connected")
class PluginConnected(Event, frozen=True):
    """The host connected to a plugin that is a remote server. It has no process and no cage here."""

    name: str
    version: str
    host: str
