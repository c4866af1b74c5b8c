"""What is known of a tenant, its plugins and the machine at one moment, as far as somebody might have to see to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from paddock.core.ids import DEFAULT_TENANT, Tenant


@dataclass(frozen=True, slots=True)
class MissingSecret:
    """A secret of the whole tenant that operations cannot do without.

    Attributes:
        operations: Which.
        personal_too: Whether each person may bring one of their own instead.
    """

    name: str
    operations: tuple[str, ...]
    personal_too: bool = False


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """One installed plugin, as its tenant has it.

    Attributes:
        state: As a listing shows it; see `plugins/store/listing.py`.
        given_up: Why the host disabled it; empty where it did not.
        runtime: The state of its process; empty where it has none.
        reason: Why it does not run, with what to do about it in `hint`, and its `code`.
        unused_config: Why it goes on with the configuration that it had.
        waiting: How much of what its server says waits for a person.
        files: Changes when its files do; only of one whose files were changed.
        unset: By field of its configuration, the variables and secrets that it refers to and that are not set.
        unfilled: Required fields of its configuration that are not there.
    """

    name: str
    version: str = ""
    state: str = "enabled"
    enabled: bool = True
    pinned: str | None = None
    given_up: str = ""
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


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """One receiver of a tenant's events."""

    id: str
    label: str
    enabled: bool = True
    disabled_why: str | None = None
    attempts: int = 0
    reason: str | None = None
    dead: int = 0
    last_dead: int = 0  # the number of the last event that died


@dataclass(frozen=True, slots=True)
class ApiKeyFacts:
    """An API key that works, or did until its time was over."""

    id: str
    label: str
    owner: str
    expires_at: str
    last_used_at: str | None = None


@dataclass(frozen=True, slots=True)
class UnknownOutcomeFacts:
    """Calls of which nobody knows whether they have happened.

    Attributes:
        waiting: How many only a person can settle.
        latest: The call that came last of these.
    """

    total: int = 0
    waiting: int = 0
    latest: str = ""


@dataclass(frozen=True, slots=True)
class WrappingKeyFacts:
    """The key that secrets are sealed under.

    Attributes:
        missing: Why it cannot be used; empty where it can, or where there is none yet.
        replaced: How many older ones are still kept: a rotation came to no end.
    """

    key_id: str = ""
    missing: str = ""
    hint: str = ""
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class HostProblem:
    """Something that the host says is wrong with itself; see `host/observability/health.py`."""

    about: str
    code: str
    message: str
    hint: str = ""
    refuses: bool = False  # whether calls are refused because of it


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What the machine gives.

    Attributes:
        free: Bytes left where the data is; None where nobody could tell.
        place: Where that is.
        limits: What holds each resource of a cage.
        without_groups: Those that no kernel group holds.
        no_cage: Why no cage can be built; empty where one can.
    """

    free: int | None = None
    place: str = ""
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    without_groups: tuple[str, ...] = ()
    no_cage: str = ""
    no_cage_hint: str = ""


@dataclass(frozen=True, slots=True)
class RepairFacts:
    """All of it; what is of the host as a whole is there for the default tenant alone."""

    now: datetime
    tenant: Tenant = DEFAULT_TENANT
    plugins: tuple[PluginFacts, ...] = ()
    webhooks: tuple[WebhookFacts, ...] = ()
    keys: tuple[ApiKeyFacts, ...] = ()
    doubts: UnknownOutcomeFacts = UnknownOutcomeFacts()
    seal: WrappingKeyFacts = WrappingKeyFacts()
    troubles: tuple[HostProblem, ...] = ()
    machine: MachineFacts | None = None  # None where it was not looked at yet
