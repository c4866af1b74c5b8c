"""Facts about a tenant, its plugins and the machine at one moment, as input for repair detection."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from paddock.core.ids import DEFAULT_TENANT, Tenant


class MissingSecret(Struct, frozen=True):
    """A missing secret of the whole tenant that operations require.

    Attributes:
        operations: The operations that require it.
        personal_too: Whether a person may set one of their own instead.
    """

    name: str
    operations: tuple[str, ...]
    personal_too: bool = False


class PluginFacts(Struct, frozen=True):
    """One installed plugin, as its tenant sees it.

    Attributes:
        state: The state in listings; see `plugins/store/listing.py`.
        given_up: Why the host disabled it; empty if it did not.
        given_up_at: When; empty if it did not.
        runtime: The state of its process; empty if it has none.
        reason: Why it does not run; `hint` says what to do, `code` is the error code.
        unused_config: Why it keeps its previous configuration.
        waiting: Number of its server's definitions that wait for acceptance.
        files: A fingerprint of its files; only if they were modified.
        unset: By configuration field, the unset variables and secrets that it refers to.
        unfilled: Required configuration fields that are not set.
    """

    name: str
    version: str = ""
    state: str = "enabled"
    enabled: bool = True
    pinned: str | None = None
    given_up: str = ""
    given_up_at: str = ""
    runtime: str = ""
    reason: str = ""
    hint: str = ""
    code: str = ""
    unused_config: str = ""
    waiting: int = 0
    files: str = ""
    unset: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    unfilled: tuple[str, ...] = ()
    secrets: tuple[MissingSecret, ...] = ()


class WebhookFacts(Struct, frozen=True):
    """One webhook receiver of a tenant's events."""

    id: str
    label: str
    enabled: bool = True
    disabled_why: str | None = None
    attempts: int = 0
    reason: str | None = None
    dead: int = 0
    last_dead: int = 0  # the sequence number of the last dead letter


class ApiKeyFacts(Struct, frozen=True):
    """An API key that is usable, or was until it expired."""

    id: str
    label: str
    owner: str
    expires_at: str
    last_used_at: str | None = None


class UnknownOutcomeFacts(Struct, frozen=True):
    """Effects whose outcome is unknown.

    Attributes:
        waiting: How many only a person can resolve.
        latest: The latest call among those.
    """

    total: int = 0
    waiting: int = 0
    latest: str = ""


class WrappingKeyFacts(Struct, frozen=True):
    """The wrapping key that secrets are sealed under.

    Attributes:
        missing: Why it is unavailable; empty if it is available, or if there is none yet.
        replaced: Number of older keys still stored: a rotation did not finish.
    """

    key_id: str = ""
    missing: str = ""
    hint: str = ""
    replaced: int = 0


class HostProblem(Struct, frozen=True):
    """A problem that the host reports about itself; see `host/observability/health.py`."""

    about: str
    code: str
    message: str
    hint: str = ""
    rejects_calls: bool = False  # whether calls are rejected because of it


class MachineFacts(Struct, frozen=True):
    """The state of the machine.

    Attributes:
        free: Free bytes on the data disk; None if unknown.
        data_path: The path of the data.
        limits: The mechanism that enforces each resource limit of a cage.
        limits_without_cgroup: The limits that no cgroup enforces.
        cage_error: Why no cage can be built; empty if one can.
    """

    free: int | None = None
    data_path: str = ""
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    limits_without_cgroup: tuple[str, ...] = ()
    cage_error: str = ""
    cage_error_hint: str = ""


class RepairFacts(Struct, frozen=True):
    """All facts; those of the host as a whole are present for the default tenant alone."""

    now: datetime
    tenant: Tenant = DEFAULT_TENANT
    plugins: tuple[PluginFacts, ...] = ()
    webhooks: tuple[WebhookFacts, ...] = ()
    keys: tuple[ApiKeyFacts, ...] = ()
    unknown_outcomes: UnknownOutcomeFacts = UnknownOutcomeFacts()
    wrapping_key: WrappingKeyFacts = WrappingKeyFacts()
    host_problems: tuple[HostProblem, ...] = ()
    machine: MachineFacts | None = None  # None if it was not probed yet
