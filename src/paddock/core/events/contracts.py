"""Audit events beyond the plugin host's table: handshake failures, compaction, activation, artifacts.

Fields of events that the source documents name without listing their data are our choice.
"""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event


@event("plugin.initialize_timeout")
class PluginInitializeTimeout(Event, frozen=True):
    """A plugin did not answer the handshake in time."""

    name: str
    timeout_sec: float


@event("plugin.embedded")
class PluginEmbedded(Event, frozen=True):
    """Functions of the embedding application serve a plugin. It has no process and no cage."""

    name: str
    version: str


@event("plugin.api_mismatch")
class PluginApiMismatch(Event, frozen=True):
    """A plugin speaks another API version than the host."""

    name: str
    expected: int
    received: int


@event("plugin.name_mismatch")
class PluginNameMismatch(Event, frozen=True):
    """A plugin gave another name in the handshake than its manifest's."""

    name: str
    received: str


@event("plugin.version_mismatch")
class PluginVersionMismatch(Event, frozen=True):
    """A plugin gave another version in the handshake than its manifest's."""

    name: str
    expected: str
    received: str


@event("plugin.methods_differ")
class PluginMethodsDiffer(Event, frozen=True):
    """A plugin serves other methods than its manifest declares: `extra` are ignored, `missing` are unavailable."""

    name: str
    extra: tuple[str, ...]
    missing: tuple[str, ...]


@event("plugin.stopped")
class PluginStopped(Event, frozen=True):
    """A plugin process stopped on request."""

    name: str


@event("protocol.oversize_message")
class OversizeMessage(Event, frozen=True):
    """A plugin sent a message above the size limit; it is killed."""

    name: str
    limit_bytes: int


@event("compactor_dropped_always_keep", reserved="sessions")
class CompactorDroppedAlwaysKeep(Event, frozen=True):
    """A compactor dropped messages that must be kept; its result is not used."""

    name: str
    agent_path: str
    session_id: str
    message_ids: tuple[str, ...]


@event("compaction.triggered", reserved="sessions")
class CompactionTriggered(Event, frozen=True):
    """Compaction of a session's messages starts."""

    agent_path: str
    session_id: str
    reason: str
    message_count: int


@event("compaction.completed", reserved="sessions")
class CompactionCompleted(Event, frozen=True):
    """A session's messages were compacted."""

    agent_path: str
    session_id: str
    strategy: str
    messages_before: int
    messages_after: int


@event("compaction.failed", reserved="sessions")
class CompactionFailed(Event, frozen=True):
    """A compaction strategy failed; another one is used."""

    agent_path: str
    session_id: str
    strategy: str
    reason: str


@event("compaction.flagged", reserved="sessions")
class CompactionFlagged(Event, frozen=True):
    """A compaction completed, and a person should review it."""

    agent_path: str
    session_id: str
    reason: str


@event("plugin.activated", reserved="personas")
class PluginActivated(Event, frozen=True):
    """A person activated a plugin for themselves."""

    plugin_id: str
    user_id: str
    tools_count: int


@event("plugin.deactivated", reserved="personas")
class PluginDeactivated(Event, frozen=True):
    """A person deactivated a plugin."""

    plugin_id: str
    user_id: str
    session_duration_seconds: float


@event("plugin.conflict", reserved="personas")
class PluginConflict(Event, frozen=True):
    """Active plugins conflict in how the assistant should behave."""

    plugins: tuple[str, ...]
    conflict_type: Literal["style", "honesty", "engagement"]
    resolution: Literal["blend", "learned_preference", "ask_user"]
    user_choice: str | None = None


@event("plugin.tool_invoked")
class PluginToolInvoked(Event, frozen=True):
    """A call reached its plugin. Sent to webhooks and followers that select it; derived from `call.ended`."""

    plugin_id: str
    tool_name: str
    duration_ms: float
    success: bool


@event("plugin.artifact_created")
class PluginArtifactCreated(Event, frozen=True):
    """A plugin created an artifact."""

    plugin_id: str
    artifact_uri: str
    artifact_type: str
    size_bytes: int
