"""A call: its principal, context, request and outcome. Plain values; the gate gives them meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from paddock.core.errors import Category, HostError
from paddock.core.ids import (
    DEFAULT_TENANT,
    AgentPath,
    CallId,
    OperatorId,
    PrincipalId,
    ProjectId,
    RequestId,
    SessionId,
    StepId,
    Tenant,
    WorkflowId,
)

OPERATOR: Final = "operator"
"""The role of the host's operators. They have every scope."""


PrincipalKind = Literal["person", "key", "agent", "adapter", "plugin", "local"]
"""The kind of a principal. `local` is the user of this machine; a `key` acts for the person it belongs to."""


class Principal(Struct, frozen=True):
    """Who makes a call, with the rights of their credential. Never taken from a request's body.

    The defaults grant the least: no principal counts as a human who can answer unless a credential says so.
    """

    id: PrincipalId
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    kind: PrincipalKind = "person"
    groups: frozenset[str] = frozenset()
    interactive: bool = False
    """Whether the credential is that of a human at a terminal or console: only such may answer for others."""
    tenant: Tenant = DEFAULT_TENANT
    owner: PrincipalId | None = None
    """The owner of the key."""

    def __hash__(self) -> int:
        return hash(self.id)  # distinguishes well enough; hashing every field would cost time in each call

    @property
    def person(self) -> PrincipalId:
        """The person a call is for: they confirm it and consent to it."""
        return self.owner or self.id

    def restricted_to(self, current: Principal) -> Principal:
        """This principal without the rights that `current`, who is the same one looked up again, does not have."""
        scopes = self.scopes & current.effective_scopes(self.scopes)
        return replace(self, scopes=scopes, roles=self.roles & current.roles, groups=self.groups & current.groups)

    def effective_scopes(self, scopes: Iterable[str]) -> frozenset[str]:
        """The scopes that the principal has in a call which needs these."""
        return self.scopes.union(scopes) if OPERATOR in self.roles else self.scopes

    def missing_scopes(self, scopes: Iterable[str]) -> list[str]:
        """Those of the scopes that the principal does not have."""
        return [] if OPERATOR in self.roles else sorted({*scopes} - self.scopes)

    def granted_scopes(self, scopes: Iterable[str]) -> list[str]:
        """Those of the scopes that the principal has."""
        requested = {*scopes}
        return sorted(requested.difference(self.missing_scopes(requested)))


class PolicySnapshot(Struct, frozen=True):
    """The policy decision on a call, for a plugin that checks again."""

    decision: str
    policies: tuple[str, ...] = ()
    version: str | None = None
    approval: str | None = None
    """The approval that the call was made with."""


class OperatorProgress(Struct, frozen=True):
    """An operator's last report on unfinished work, passed along when it is polled again."""

    asked: int
    """How often it was polled since, this time included."""
    result: Any = None


class CallContext(Struct, frozen=True):
    """The context of a call; each contract sees a part of it.

    `project`, `agent_path` and `session` belong to an agent run and are known together or not at all.
    """

    principal: Principal
    request: RequestId
    """Also the correlation id that follows the call everywhere."""
    tenant: Tenant = DEFAULT_TENANT
    operator: OperatorId | None = None
    project: ProjectId | None = None
    agent_path: AgentPath | None = None
    session: SessionId | None = None
    workflow: WorkflowId | None = None
    step: StepId | None = None
    trace: str | None = None
    """The caller's `traceparent`, for tracing."""
    idempotency_key: str | None = None
    """Under one key an effect happens once. A call without a key is a call of its own."""
    fence: int | None = None
    """For a call with an effect: how often its key was claimed. A request with a lower fence is stale."""
    call: CallId | None = None
    """For a call with an effect: its id, passed on to the receivers of requests made for it."""
    background: bool = False
    """Nobody waits for it: its caller detached from it, a schedule or a feed makes it, or the host makes it to recover
    an effect. A call that waits for a person goes on as it was made."""
    origin: str | None = None
    """Where the caller made it: `cli`, `http`, `mcp` or `console`; with the name of an MCP client as `mcp:NAME`."""
    dry_run: bool = False
    """Only what would happen is asked for."""
    policy: PolicySnapshot | None = None
    so_far: OperatorProgress | None = None
    """For a call that was made before, whose operator was still working then."""

    def __post_init__(self) -> None:
        if (self.project is None) is (self.agent_path is None) is (self.session is None):
            return
        run = {"project": self.project, "agent_path": self.agent_path, "session": self.session}
        missing = sorted(name for name, value in run.items() if value is None)
        if missing and len(missing) < len(run):
            raise HostError(
                f"a call from an agent run must name its {' and '.join(missing)} too",
                code="context.partial",
                details={"missing": missing},
            )

    def plugin_context(self) -> dict[str, str | None]:
        """The `_context` that a kaged plugin receives; null where something is unknown."""
        return {
            "operator_id": self.operator,
            "project_id": self.project,
            "agent_path": self.agent_path,
            "session_id": self.session,
            "request_id": self.request,
        }


class OutcomeStatus(StrEnum):
    """How far a call got, in the Kernel's terms."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"


class Stability(StrEnum):
    """How much the answers to the same request vary."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ArtifactReference(Struct, frozen=True):
    """An artifact of a call that is stored elsewhere."""

    type: str
    path: str
    hash: str


class Nondeterminism(Struct, frozen=True):
    """Whether and why the same call could be answered differently."""

    is_nondeterministic: bool = False
    reasons: tuple[str, ...] = ()
    stability: Stability | None = None


class CallFailure(Struct, frozen=True):
    """Why a call failed, as a value that can be stored."""

    code: str
    message: str
    category: Category
    retryable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


class CallOutcome(Struct, frozen=True):
    """The outcome of a call."""

    status: OutcomeStatus
    result: Any = None
    artifacts: tuple[ArtifactReference, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: CallFailure | None = None
    nondeterminism: Nondeterminism = Nondeterminism()
