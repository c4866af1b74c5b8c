"""Audit events of running plugins, from the plugin host's table, with exactly the data that it lists."""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event

MAX_NOISE_CHARS = 200
MAX_STDERR_LINES = 50


@event("plugin.spawned")
class PluginSpawned(Event):
    """A plugin's process started."""

    name: str
    version: str
    pid: int
    cage_id: str


@event("plugin.initialized")
class PluginInitialized(Event):
    """The handshake is done."""

    name: str
    methods_count: int
    capabilities_count: int


@event("plugin.method_called")
class PluginMethodCalled(Event):
    """The host called a method. The table's `user_id` and `project` bear the names its amendment gave them."""

    name: str
    method: str
    request_id: str
    operator_id: str | None
    project_id: str | None


@event("plugin.method_returned")
class PluginMethodReturned(Event):
    """A plugin answered a call."""

    name: str
    method: str
    request_id: str
    duration_ms: float
    success: bool


@event("plugin.notification")
class PluginNotification(Event):
    """A plugin sent a notification."""

    name: str
    notification_type: str


@event("plugin.notification_flood")
class PluginNotificationFlood(Event):
    """A plugin sent more notifications than it may."""

    name: str
    rate: float


@event("plugin.stdout_noise")
class PluginStdoutNoise(Event):
    """A plugin wrote something else than JSON to its standard output."""

    name: str
    line: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", self.line[:MAX_NOISE_CHARS])


@event("plugin.health_fail")
class PluginHealthFail(Event):
    """A health check failed."""

    name: str
    consecutive_failures: int


@event("plugin.crashed")
class PluginCrashed(Event):
    """A process ended when nobody asked it to."""

    name: str
    exit_code: int | None
    signal: int | None
    last_stderr: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "last_stderr", self.last_stderr[-MAX_STDERR_LINES:])


@event("plugin.exited")
class PluginExited(Event):
    """A process ended cleanly."""

    name: str
    exit_code: int


@event("plugin.killed")
class PluginKilled(Event):
    """A process had to be killed after its time was up."""

    name: str


@event("plugin.failed")
class PluginFailed(Event):
    """A plugin failed too often in a row and is given up."""

    name: str
    total_failures: int


@event("plugin.protocol_violation")
class PluginProtocolViolation(Event):
    """A plugin broke the wire protocol."""

    name: str
    violation_type: str
    detail: str


@event("plugin.capability_overreach")
class PluginCapabilityOverreach(Event):
    """A plugin claimed more than its manifest declares."""

    name: str
    claimed: tuple[str, ...]
    allowed: tuple[str, ...]


@event("plugin.storage_denied")
class PluginStorageDenied(Event):
    """A plugin reached for data outside its own storage. The statement comes redacted."""

    name: str
    sql: str


@event("plugin.hook.fired")
class PluginHookFired(Event):
    """A lifecycle hook was invoked."""

    name: str
    hook: str
    agent_path: str | None
    session_id: str | None
    request_id: str


@event("plugin.hook.returned")
class PluginHookReturned(Event):
    """A lifecycle hook answered."""

    name: str
    hook: str
    duration_ms: float
    has_result: bool


@event("plugin.hook.timeout")
class PluginHookTimeout(Event):
    """A lifecycle hook took too long and counts as having answered nothing."""

    name: str
    hook: str
    agent_path: str | None
    timeout_sec: float


@event("plugin.hook.failed")
class PluginHookFailed(Event):
    """A lifecycle hook answered with an error."""

    name: str
    hook: str
    agent_path: str | None
    error_code: int
    error_message: str


@event("plugin.hook.illegal")
class PluginHookIllegal(Event):
    """A subagent declared a hook that only a primary agent has; a warning."""

    name: str
    hook: str
    agent_path: str


@event("plugin.tool_registered")
class PluginToolRegistered(Event):
    """A tool joined an agent's tools."""

    name: str
    tool: str
    agent_path: str


@event("plugin.tool_name_collision")
class PluginToolNameCollision(Event):
    """Two plugins offered a tool under one name."""

    first: str
    second: str
    tool: str


@event("plugin.role_violation")
class PluginRoleViolation(Event):
    """A second compactor for one agent was refused."""

    first: str
    second: str
    agent_path: str


@event("plugin.config_validation_failed")
class PluginConfigValidationFailed(Event):
    """The project's or the system's settings do not fit the plugin's schema."""

    name: str
    side: Literal["project", "system"]
    errors: tuple[str, ...]


@event("plugin.knob_write")
class PluginKnobWrite(Event):
    """The operator turned a knob and the plugin was told."""

    name: str
    knob: str
    agent_path: str | None
    request_id: str
