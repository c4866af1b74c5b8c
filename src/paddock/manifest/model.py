"""The manifest model. Whatever dialect a plugin is written in, the host sees only this.

Everything here is a frozen value. JSON values (schemas, defaults) are kept as they were read and are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability
from paddock.manifest.effects import Effect
from paddock.manifest.secret_use import SecretRecipient

JsonObject: TypeAlias = Mapping[str, Any]


class Dialect(StrEnum):
    """The manifest format; it also decides the plugin's names on the wire."""

    NATIVE = "native"
    KERNEL = "kernel"
    SHU = "shu"
    OSQR = "osqr"
    KAGED = "kaged"
    MCP = "mcp"


class PluginKind(StrEnum):
    """The kind of a plugin. The four Kernel kinds have enforced boundaries; `plugin` is everything else."""

    PLUGIN = "plugin"
    AGENT = "agent"
    OPERATOR = "operator"
    TOOL = "tool"
    ADAPTER = "adapter"


class CallableForm(StrEnum):
    """How a callable is invoked in the plugin's protocol."""

    METHOD = "method"  # a JSON-RPC method under its own name
    TOOL = "tool"  # a tool an agent may be offered
    WHOLE = "whole"  # the plugin is the callable: a Kernel plugin, a Shu `execute`
    ACTION = "action"  # an action of a Shu class besides its `execute`
    RESOURCE = "resource"  # documents of an MCP server, read by their URI
    PROMPT = "prompt"  # prompt templates of an MCP server
    SUBSCRIPTION = "subscription"  # subscribing to changes of such a document, and unsubscribing
    COMPLETION = "completion"  # suggested values for arguments of these


class SchemaFile(Struct, frozen=True):
    """A JSON Schema kept as a file of the package."""

    path: str


Schema: TypeAlias = JsonObject | SchemaFile


Recovery: TypeAlias = Literal["atomic", "native_key", "probe", "none"]


class CallableSpec(Struct, frozen=True):
    """One operation that a plugin offers."""

    name: str
    form: CallableForm
    description: str = ""
    title: str = ""
    input_schema: Schema | None = None
    output_schema: Schema | None = None
    effects: tuple[Effect, ...] | None = None  # None: not declared
    policy_tags: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()
    requires_approval: bool = False
    timeout_sec: int | None = None
    annotations: JsonObject = field(default_factory=dict[str, Any])  # a server's own hints; see `manifest/effects.py`
    of: str = ""  # for an action: the callable whose class performs it
    recovery: Recovery = "none"  # how to find out whether its effect happened
    probe: str = ""  # the callable to ask, if `recovery` is "probe"


class CommandRuntime(Struct, frozen=True):
    """A program that speaks JSON-RPC on stdio: kaged's protocol, or MCP."""

    command: tuple[str, ...]
    protocol: Literal["paddock", "mcp"] = "paddock"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None


class PythonRuntime(Struct, frozen=True):
    """Python classes or functions, imported by a worker inside the cage."""

    entrypoints: Mapping[str, str]  # callable or plugin name -> "package.module:Attribute"
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class RemoteRuntime(Struct, frozen=True):
    """A remote MCP server: a connection, not a caged plugin."""

    url: str
    transport: Literal["streamable-http", "sse"] = "streamable-http"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Runtime: TypeAlias = CommandRuntime | PythonRuntime | RemoteRuntime


KnobType: TypeAlias = Literal["range", "int_range", "enum", "boolean", "text", "multiline", "model_alias", "path"]


class Knob(Struct, frozen=True):
    """A setting that a person changes in the console; it writes one field of the project-side config."""

    name: str
    type: KnobType
    label: str
    binds_to: str
    description: str = ""
    options: JsonObject = field(default_factory=dict[str, Any])  # the options of this knob type


class ToolRequirement(Struct, frozen=True):
    """A tool that must be installed for this plugin to be enabled: a name and a version constraint."""

    name: str
    constraint: str = "*"


class Requires(Struct, frozen=True):
    """Requirements that must be met before a plugin can be enabled."""

    tools: tuple[ToolRequirement, ...] = ()
    capabilities: tuple[str, ...] = ()
    context_fields: tuple[str, ...] = ()


class Behaviour(Struct, frozen=True):
    """How a plugin changes the assistant's style, and when the assistant speaks unprompted."""

    style: str = ""
    intensity: str = "subtle"
    honesty_override: bool = False
    honesty_mode: str = ""
    direct_feedback_kept: bool = True
    can_initiate: bool = False
    trigger_topics: tuple[str, ...] = ()
    confidence_threshold: float = 0.5
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    response_length: str | None = None
    emoji_usage: str | None = None


class DataAccess(Struct, frozen=True):
    """Which personal data a plugin reads and writes."""

    vault_read: bool = False
    vault_write: bool = False
    memory: str = "none"
    external_apis: tuple[str, ...] = ()


class Resource(Struct, frozen=True):
    """A document the plugin offers."""

    uri: str
    name: str
    description: str = ""
    mime_type: str | None = None


class PromptArgument(Struct, frozen=True):
    name: str
    description: str = ""
    required: bool = False


class Prompt(Struct, frozen=True):
    """A reusable prompt template the plugin offers."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    text: str | None = None


class IdentityRequirement(Struct, frozen=True):
    """An account at a provider that a person must have connected."""

    provider: str
    mode: str = "user"
    scopes: tuple[str, ...] = ()
    optional: bool = False


class OperationAuth(Struct, frozen=True):
    """The account and secrets that one operation needs to act for a person."""

    operation: str
    provider: str | None = None
    mode: str | None = None
    scopes: tuple[str, ...] = ()
    subject_hint: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])  # name -> user | system | system_or_user


class Feeds(Struct, frozen=True):
    """The operations that are safe to run on a schedule, unattended."""

    default_op: str | None = None
    allowed_ops: tuple[str, ...] = ()


class Timing(Struct, frozen=True):
    """Timeouts and intervals of the host for this plugin, in seconds."""

    shutdown: int = 5
    health_interval: int = 30
    hook: int = 10
    call: int = 30


class Observability(Struct, frozen=True):
    log_level: str = "info"
    emit_samples: bool = False


class Manifest(Struct, frozen=True):
    """The manifest of a plugin: its identity, requirements and callables."""

    name: PluginName
    version: str
    dialect: Dialect
    description: str = ""
    title: str = ""
    author: str = ""
    license: str = ""
    homepage: str = ""
    icon: str = ""
    kind: PluginKind = PluginKind.PLUGIN
    api: int = 1
    trust_claim: str | None = None  # a claim only; the effective tier is computed from the signature
    runtime: Runtime | None = None
    start: Literal["eager", "lazy"] = "eager"
    capabilities: tuple[Capability, ...] = ()
    callables: tuple[CallableSpec, ...] = ()
    roles: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    notifications: tuple[str, ...] = ()
    config_schema: JsonObject | None = None
    system_config_schema: JsonObject | None = None
    knobs: tuple[Knob, ...] = ()
    requires: Requires = Requires()
    allowed_actions: tuple[str, ...] = ()  # actions that an agent may propose; empty means none
    policy_tags: tuple[str, ...] = ()
    observability: Observability = Observability()
    behaviour: Behaviour | None = None
    data_access: DataAccess | None = None
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    identities: tuple[IdentityRequirement, ...] = ()
    operation_auth: tuple[OperationAuth, ...] = ()
    secrets: tuple[str, ...] = ()
    # The host writes a secret listed here into headers of requests to these recipients, and nowhere else.
    secret_hosts: Mapping[str, tuple[SecretRecipient, ...]] = field(
        default_factory=dict[str, "tuple[SecretRecipient, ...]"]
    )
    feeds: Feeds = Feeds()
    origins: tuple[str, ...] = ()
    timing: Timing = Timing()

    @property
    def display_name(self) -> str:
        """The name people see: the title if there is one."""
        return self.title or self.name

    @property
    def whole(self) -> CallableSpec | None:
        """The single callable that the plugin is, if it is one; it may have actions besides."""
        main = [spec for spec in self.callables if spec.form is not CallableForm.ACTION]
        return main[0] if len(main) == 1 and main[0].form is CallableForm.WHOLE else None

    @property
    def caged(self) -> bool:
        """Whether the plugin runs as a caged process. A remote server is only a connection."""
        return not isinstance(self.runtime, RemoteRuntime)
