"""Audit events beyond the plugin host's table: handshake failures, compaction, activation, executions.

Fields of events that the source documents name without listing their data are our choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from paddock.core.call import Nondeterminism
from paddock.core.events.event import Event, event


@event("plugin.initialize_timeout")
class PluginInitializeTimeout(Event):
    """No answer to the handshake in time."""

    name: str
    timeout_sec: float


@event("plugin.embedded")
class PluginEmbedded(Event):
    """Functions of the application around the host are called as a plugin: without a process, and without a cage."""

    name: str
    version: str


@event("plugin.api_mismatch")
class PluginApiMismatch(Event):
    """The plugin speaks another API version."""

    name: str
    expected: int
    received: int


@event("plugin.name_mismatch")
class PluginNameMismatch(Event):
    """The plugin answered to another name than its manifest's."""

    name: str
    received: str


@event("plugin.version_mismatch")
class PluginVersionMismatch(Event):
    """The plugin answered with another version than its manifest's."""

    name: str
    expected: str
    received: str


@event("plugin.methods_differ")
class PluginMethodsDiffer(Event):
    """The plugin serves other methods than its manifest declares: `extra` are ignored, `missing` unavailable."""

    name: str
    extra: tuple[str, ...]
    missing: tuple[str, ...]


@event("plugin.stopped")
class PluginStopped(Event):
    """A process stopped as asked."""

    name: str


@event("protocol.oversize_message")
class OversizeMessage(Event):
    """A message was longer than a line may be; the plugin is killed."""

    name: str
    limit_bytes: int


@event("compactor_dropped_always_keep")
class CompactorDroppedAlwaysKeep(Event):
    """A compactor left out messages that must stay; its answer is not used."""

    name: str
    agent_path: str
    session_id: str
    message_ids: tuple[str, ...]


@event("compaction.triggered")
class CompactionTriggered(Event):
    """A session's messages are about to be compacted."""

    agent_path: str
    session_id: str
    reason: str
    message_count: int


@event("compaction.completed")
class CompactionCompleted(Event):
    """A session's messages were compacted."""

    agent_path: str
    session_id: str
    strategy: str
    messages_before: int
    messages_after: int


@event("compaction.failed")
class CompactionFailed(Event):
    """A way of compacting failed; another takes over."""

    agent_path: str
    session_id: str
    strategy: str
    reason: str


@event("compaction.flagged")
class CompactionFlagged(Event):
    """A compaction went through and a person should look at it."""

    agent_path: str
    session_id: str
    reason: str


@event("plugin.activated")
class PluginActivated(Event):
    """A person activated a plugin for themselves."""

    plugin_id: str
    user_id: str
    tools_count: int


@event("plugin.deactivated")
class PluginDeactivated(Event):
    """A person deactivated a plugin."""

    plugin_id: str
    user_id: str
    session_duration_seconds: float


@event("plugin.conflict")
class PluginConflict(Event):
    """Active plugins disagreed about how to behave."""

    plugins: tuple[str, ...]
    conflict_type: Literal["style", "honesty", "engagement"]
    resolution: Literal["blend", "learned_preference", "ask_user"]
    user_choice: str | None = None


@event("plugin.tool_invoked")
class PluginToolInvoked(Event):
    """A tool of an active plugin was used."""

    plugin_id: str
    tool_name: str
    duration_ms: float
    success: bool


@event("plugin.artifact_created")
class PluginArtifactCreated(Event):
    """A plugin produced an artifact."""

    plugin_id: str
    artifact_uri: str
    artifact_type: str
    size_bytes: int


@event("execution.recorded")
class ExecutionRecorded(Event):
    """One execution, as the Kernel's job ledger wants it. `error` is its code, `model` what a model call used."""

    plugin: str
    version: str
    payload_hash: str
    result_hash: str | None
    metrics: Mapping[str, Any]
    error: str | None
    nondeterminism: Nondeterminism
    model: Mapping[str, Any] | None = None
