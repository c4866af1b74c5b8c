"""Audit events of running plugins, from the plugin host's table, with exactly the data that it lists."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import force_setattr

from paddock.core.events.event import Event, event

MAX_NOISE_CHARS = 200
MAX_STDERR_LINES = 50


@event("plugin.spawned")
class PluginSpawned(Event, frozen=True):
    """A plugin process started."""

    name: str
    version: str
    pid: int
    cage_id: str


@event("plugin.initialized")
class PluginInitialized(Event, frozen=True):
    """The handshake with a plugin completed."""

    name: str
    methods_count: int
    capabilities_count: int


@event("plugin.method_called")
class PluginMethodCalled(Event, frozen=True):
    """The host called a method of a plugin."""

    name: str
    method: str
    request_id: str
    operator_id: str | None
    project_id: str | None


@event("plugin.method_returned")
class PluginMethodReturned(Event, frozen=True):
    """A plugin answered a call."""

    name: str
    method: str
    request_id: str
    duration_ms: float
    success: bool


@event("plugin.notification")
class PluginNotification(Event, frozen=True):
    """A plugin sent a notification."""

    name: str
    notification_type: str


@event("plugin.notification_flood")
class PluginNotificationFlood(Event, frozen=True):
    """A plugin exceeded the rate limit of notifications."""

    name: str
    rate: float


@event("plugin.stdout_noise")
class PluginStdoutNoise(Event, frozen=True):
    """A plugin wrote a line to its standard output that is not JSON-RPC."""

    name: str
    line: str

    def __post_init__(self) -> None:
        force_setattr(self, "line", self.line[:MAX_NOISE_CHARS])


@event("plugin.health_fail")
class PluginHealthFail(Event, frozen=True):
    """A health check of a plugin failed."""

    name: str
    consecutive_failures: int


@event("plugin.crashed")
class PluginCrashed(Event, frozen=True):
    """A plugin process ended unexpectedly."""

    name: str
    exit_code: int | None
    signal: int | None
    last_stderr: tuple[str, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "last_stderr", self.last_stderr[-MAX_STDERR_LINES:])


@event("plugin.exited")
class PluginExited(Event, frozen=True):
    """A plugin process exited after a stop request."""

    name: str
    exit_code: int


@event("plugin.killed")
class PluginKilled(Event, frozen=True):
    """A plugin process did not stop in time and was killed."""

    name: str


@event("plugin.failed")
class PluginFailed(Event, frozen=True):
    """A plugin failed too often; it is not restarted."""

    name: str
    total_failures: int


@event("plugin.protocol_violation")
class PluginProtocolViolation(Event, frozen=True):
    """A plugin violated the protocol."""

    name: str
    violation_type: str
    detail: str


@event("plugin.capability_overreach")
class PluginCapabilityOverreach(Event, frozen=True):
    """A plugin claimed capabilities that its manifest does not declare."""

    name: str
    claimed: tuple[str, ...]
    allowed: tuple[str, ...]


@event("plugin.storage_denied")
class PluginStorageDenied(Event, frozen=True):
    """A plugin tried to access data outside its own tables. The statement is redacted."""

    name: str
    sql: str


@event("plugin.hook.fired")
class PluginHookFired(Event, frozen=True):
    """A session hook was called."""

    name: str
    hook: str
    agent_path: str | None
    session_id: str | None
    request_id: str


@event("plugin.hook.returned")
class PluginHookReturned(Event, frozen=True):
    """A session hook returned."""

    name: str
    hook: str
    duration_ms: float
    has_result: bool


@event("plugin.hook.timeout")
class PluginHookTimeout(Event, frozen=True):
    """A session hook timed out; its result counts as empty."""

    name: str
    hook: str
    agent_path: str | None
    timeout_sec: float


@event("plugin.hook.failed")
class PluginHookFailed(Event, frozen=True):
    """A session hook returned an error."""

    name: str
    hook: str
    agent_path: str | None
    error_code: int
    error_message: str


@event("plugin.hook.illegal", reserved="sessions")
class PluginHookIllegal(Event, frozen=True):
    """A subagent declared a hook that only primary agents have; a warning."""

    name: str
    hook: str
    agent_path: str


@event("plugin.tool_registered", reserved="sessions")
class PluginToolRegistered(Event, frozen=True):
    """A tool was added to an agent's tools."""

    name: str
    tool: str
    agent_path: str


@event("plugin.tool_name_collision")
class PluginToolNameCollision(Event, frozen=True):
    """Two plugins offer a tool with the same full name."""

    first: str
    second: str
    tool: str


@event("plugin.role_violation", reserved="sessions")
class PluginRoleViolation(Event, frozen=True):
    """A second compactor for one agent was rejected."""

    first: str
    second: str
    agent_path: str


@event("plugin.config_validation_failed")
class PluginConfigValidationFailed(Event, frozen=True):
    """The project or system configuration does not match the plugin's schema."""

    name: str
    side: Literal["project", "system"]
    errors: tuple[str, ...]


@event("plugin.knob_write")
class PluginKnobWrite(Event, frozen=True):
    """A person set a knob, and the plugin got the new value."""

    name: str
    knob: str
    agent_path: str | None
    request_id: str
