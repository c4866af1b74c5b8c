"""What the supervisor is given to run, and what it tells about it. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from paddock.cage.spec import CageSpec
from paddock.core.ids import Digest, PluginName, Tenant
from paddock.manifest.capability import Capability, StorageAccess
from paddock.manifest.model import Manifest
from paddock.runtime.lifecycle import PluginState


@dataclass(frozen=True, slots=True)
class InstanceKey:
    """What one process stands for: this version of this plugin, for these people."""

    tenant: Tenant
    plugin: PluginName
    digest: Digest


@dataclass(frozen=True, slots=True)
class Deployment:
    """Everything that is needed to run one plugin for one tenant."""

    key: InstanceKey
    manifest: Manifest
    capabilities: tuple[Capability, ...]  # what was granted, not what is asked for
    projects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    functions: Mapping[str, Callable[..., Any]] | None = None  # of the application around the host, which serve it
    tier: str = "personal"  # the effective trust tier
    signature: str = "unsigned"  # what its signature is worth here, or `embedded`

    @property
    def name(self) -> PluginName:
        return self.key.plugin

    @property
    def storage_available(self) -> bool:
        """Whether the plugin has tables of its own."""
        return any(isinstance(capability, StorageAccess) for capability in self.capabilities)

    @property
    def accepts_config(self) -> bool:
        """Whether the plugin declares any configuration; one that does not may leave `config.update` unserved."""
        return self.manifest.config_schema is not None or self.manifest.system_config_schema is not None


@dataclass(frozen=True, slots=True)
class InProcessTarget:
    """The application around the host, which serves some callables by functions of its own."""

    manifest: Manifest
    by_name: Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class RemoteTarget:
    """A server that somebody else runs."""

    url: str = field(repr=False)  # this and the headers may hold secrets in the clear
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    transport: Literal["streamable-http", "sse"] = "streamable-http"


# Where a plugin lives.
LaunchTarget: TypeAlias = CageSpec | InProcessTarget | RemoteTarget


@dataclass(frozen=True, slots=True)
class StartSpec:
    """A deployment at the moment of its start."""

    target: LaunchTarget
    config: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # may hold secrets in the clear


class PrepareStart(Protocol):
    """Makes a deployment ready: its files compared with what was consented to, its configuration read, its cage
    compiled. Asked before every start, so that each one finds things as they are then."""

    async def __call__(self, deployment: Deployment) -> StartSpec:
        """What to start.

        Raises:
            PaddockError: it must not or cannot run; says why.
        """
        ...


@dataclass(frozen=True, slots=True)
class LastFailure:
    """Why a process ended that nobody asked to end, or could not begin. Kept when the next one runs."""

    reason: str
    hint: str
    error_code: str
    at: str  # ISO-8601


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """How one plugin is doing."""

    key: InstanceKey
    version: str
    state: PluginState
    pid: int | None = None
    cage_id: str | None = None
    reason: str = ""  # why it is not running, in words
    hint: str = ""
    error_code: str = ""
    failures: int = 0
    restarts: int = 0  # how often it was started again by itself
    last_failure: LastFailure | None = None
    running_since: str | None = None  # ISO-8601
    restarts_in: float | None = None  # seconds
    in_flight: int = 0
    calls: int = 0
    unavailable_methods: tuple[str, ...] = ()
    undeclared_methods: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
