"""Audit events of installed plugins and trusted keys: what people do with them.

A module of their own, so that a command which records one does not have to define all the others.
"""

from __future__ import annotations

from msgspec import Struct

from paddock.core.events.event import Event, event


class CapabilityDiff(Struct, frozen=True):
    """What an upgrade asks for that the old version did not, and the reverse."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@event("plugin.enabled")
class PluginEnabled(Event, frozen=True):
    """A plugin was enabled."""

    name: str


@event("plugin.granted")
class PluginGranted(Event, frozen=True):
    """A tenant granted a plugin more capabilities: `capabilities` are the new ones, `digest` is that of its files."""

    name: str
    version: str
    capabilities: tuple[str, ...]
    digest: str


@event("plugin.tried")
class PluginTried(Event, frozen=True):
    """A plugin was started in a cage to see what it needs. `capabilities` are those that were granted for this only.

    `tool` is the one that was really called for it, if any. A trial that came to no result has the code of the `error`
    that ended it, e.g. `policy_denied` or `trial.cancelled`: then `tool` is the one that was to be called.
    """

    name: str
    version: str
    capabilities: tuple[str, ...]
    digest: str
    answered: bool
    tool: str | None = None
    error: str | None = None


@event("plugin.configured")
class PluginConfigured(Event, frozen=True):
    """Fields of a plugin's system configuration were set or removed. Values are not recorded."""

    name: str
    fields: tuple[str, ...]
    forgotten: tuple[str, ...]


@event("plugin.disabled")
class PluginDisabled(Event, frozen=True):
    """A plugin was disabled by a person, because it failed too often, or because it was enabled and did not start."""

    name: str
    reason: str


@event("plugin.installed")
class PluginInstalled(Event, frozen=True):
    """A plugin was installed with these files and `capabilities`; `accepted_dangers` were accepted one by one."""

    name: str
    version: str
    source: str
    local: bool
    digest: str
    capabilities: tuple[str, ...]
    accepted_dangers: tuple[str, ...] = ()


@event("plugin.upgraded")
class PluginUpgraded(Event, frozen=True):
    """Another version became the default; `digest` and `capabilities` are those of the new version.

    `accepted_dangers` are its new dangerous permissions, which were accepted one by one.
    """

    name: str
    old_version: str
    new_version: str
    capability_diff: CapabilityDiff
    digest: str
    capabilities: tuple[str, ...]
    accepted_dangers: tuple[str, ...] = ()


@event("plugin.uninstalled")
class PluginUninstalled(Event, frozen=True):
    """A plugin was uninstalled."""

    name: str
    version: str


@event("plugin.pinned")
class PluginPinned(Event, frozen=True):
    """A plugin was pinned to a version, or unpinned (`version` is null)."""

    name: str
    version: str | None


@event("plugin.rolled_back")
class PluginRolledBack(Event, frozen=True):
    """An earlier version became the default again; `digest` and `capabilities` as in `plugin.upgraded`."""

    name: str
    old_version: str
    new_version: str
    digest: str
    capabilities: tuple[str, ...]


@event("plugin.repaired")
class PluginRepaired(Event, frozen=True):
    """A plugin's files were restored to those that were consented to."""

    name: str
    version: str


@event("plugin.modified_detected")
class PluginModifiedDetected(Event, frozen=True):
    """A plugin's files differ from those that were consented to."""

    name: str
    version: str
    expected: str
    found: str


@event("key.trusted")
class KeyTrusted(Event, frozen=True):
    """A signing key was added to the trusted keys."""

    key_id: str
    label: str


@event("key.removed")
class KeyRemoved(Event, frozen=True):
    """A signing key was removed from the trusted keys."""

    key_id: str
