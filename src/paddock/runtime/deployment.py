"""Values that the supervisor is given to run a plugin, and the status it reports. Plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from paddock.cage.spec import CageSpec
from paddock.core.action import Action
from paddock.core.ids import Digest, PluginName, Tenant
from paddock.manifest.capability import Capability, StorageAccess
from paddock.manifest.model import Manifest
from paddock.runtime.lifecycle import PluginState


class InstanceKey(Struct, frozen=True):
    """Identity of one plugin process: one version of one plugin for one tenant."""

    tenant: Tenant
    plugin: PluginName
    digest: Digest


class Deployment(Struct, frozen=True):
    """Everything needed to run one plugin for one tenant."""

    key: InstanceKey
    manifest: Manifest
    capabilities: tuple[Capability, ...]  # granted, not requested
    projects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    # functions of the embedding application that serve the callables
    functions: Mapping[str, Callable[..., Any]] | None = None
    tier: str = "personal"  # the effective trust tier
    signature: str = "unsigned"  # the signature's verification state here, or `embedded`

    @property
    def name(self) -> PluginName:
        return self.key.plugin

    @property
    def storage_available(self) -> bool:
        """Whether the plugin has database tables of its own."""
        return any(isinstance(capability, StorageAccess) for capability in self.capabilities)

    @property
    def accepts_config(self) -> bool:
        """Whether the plugin declares any configuration; one that does not may leave `config.update` unserved."""
        return self.manifest.config_schema is not None or self.manifest.system_config_schema is not None


class InProcessTarget(Struct, frozen=True):
    """Functions of the embedding application that serve a plugin's callables."""

    manifest: Manifest
    by_name: Mapping[str, Callable[..., Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class RemoteTarget:
    """A server that someone else runs."""

    url: str = dataclasses.field(repr=False)  # this and the headers may hold secrets in the clear
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str], repr=False)
    transport: Literal["streamable-http", "sse"] = "streamable-http"


# Where a plugin runs.
LaunchTarget: TypeAlias = CageSpec | InProcessTarget | RemoteTarget


@dataclasses.dataclass(frozen=True, slots=True)
class StartSpec:
    """A deployment resolved for one start: where it runs and with which configuration."""

    target: LaunchTarget
    config: Mapping[str, Any] = dataclasses.field(
        default_factory=dict[str, Any], repr=False
    )  # may hold secrets in the clear


PrepareStart: TypeAlias = Callable[[Deployment], Awaitable[StartSpec]]
"""Prepares a deployment for its start: verifies its files against what was consented to, reads its configuration and
compiles its cage. Raises PaddockError where it must not or cannot run.

Called before every start, so that each start sees the current state.
"""


class LastFailure(Struct, frozen=True):
    """Why the last process failed or could not start. Kept while the next one runs."""

    reason: str
    hint: str
    action: Action | None
    error_code: str
    at: str  # ISO-8601


class PluginStatus(Struct, frozen=True):
    """The status of one plugin instance."""

    key: InstanceKey
    version: str
    state: PluginState
    pid: int | None = None
    cage_id: str | None = None
    reason: str = ""  # why it is not running, for people
    hint: str = ""
    action: Action | None = None
    error_code: str = ""
    failures: int = 0
    restarts: int = 0  # automatic restarts
    last_failure: LastFailure | None = None
    running_since: str | None = None  # ISO-8601
    restarts_in: float | None = None  # seconds
    in_flight: int = 0
    calls: int = 0
    unavailable_methods: tuple[str, ...] = ()
    undeclared_methods: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
