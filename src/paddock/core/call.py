"""A call, who makes it and where, and what came of it. Plain values; the gate gives them meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal

from paddock.core.errors import Category, HostError
from paddock.core.ids import (
    DEFAULT_TENANT,
    AgentPath,
    CallableName,
    CallId,
    OperatorId,
    PluginName,
    PrincipalId,
    ProjectId,
    RequestId,
    SessionId,
    StepId,
    Tenant,
    WorkflowId,
)

OPERATOR: Final = "operator"
"""The role of whoever operates this host. They have every scope."""


PrincipalKind = Literal["person", "key", "agent", "adapter", "plugin", "local"]
"""What somebody who acts is. `local` is whoever sits at this machine; a `key` acts for the person it belongs to."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts, with what the credential says they may do. Never taken from a request's body.

    The defaults say the least: nobody is taken for a human who can answer without a credential that says so.
    """

    id: PrincipalId
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    kind: PrincipalKind = "person"
    groups: frozenset[str] = frozenset()
    interactive: bool = False
    """Whether it is the credential of a human at a terminal or console: only such may answer for others."""
    tenant: Tenant = DEFAULT_TENANT
    owner: PrincipalId | None = None
    """Whose key it is."""

    def __hash__(self) -> int:
        return hash(self.id)  # tells enough of them apart; all of it would be hashed for every call

    @property
    def person(self) -> PrincipalId:
        """Whom a call of theirs is for: who confirms it and consents to it."""
        return self.owner or self.id

    def restricted_to(self, current: Principal) -> Principal:
        """This principal without the rights that `current`, who is the same one looked up again, does not have."""
        scopes = self.scopes & current.effective_scopes(self.scopes)
        return replace(self, scopes=scopes, roles=self.roles & current.roles, groups=self.groups & current.groups)

    def effective_scopes(self, scopes: Iterable[str]) -> frozenset[str]:
        """The scopes that they have in a call which needs these."""
        return self.scopes.union(scopes) if OPERATOR in self.roles else self.scopes

    def missing_scopes(self, scopes: Iterable[str]) -> list[str]:
        """Those of the scopes that they do not have."""
        return [] if OPERATOR in self.roles else sorted({*scopes} - self.scopes)

    def granted_scopes(self, scopes: Iterable[str]) -> list[str]:
        """Those of the scopes that they have."""
        asked = {*scopes}
        return sorted(asked.difference(self.missing_scopes(asked)))


@dataclass(frozen=True, slots=True)
class PolicySnapshot:
    """What the rules said of a call, for a plugin that looks once more."""

    decision: str
    policies: tuple[str, ...] = ()
    version: str | None = None
    approval: str | None = None
    """The yes that it was made with."""


@dataclass(frozen=True, slots=True)
class OperatorProgress:
    """What an operator said of work that was not over, for when it is asked again."""

    asked: int
    """How often it was asked since, this time included."""
    result: Any = None


@dataclass(frozen=True, slots=True)
class CallContext:
    """Everything about a call's surroundings; each contract sees a part of it.

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
    """The `traceparent` that the caller named, for whoever traces."""
    idempotency_key: str | None = None
    """Under one key an effect happens once. A call that is given none stands for itself."""
    fence: int | None = None
    """Of a call with an effect: how often its key was claimed. What comes with a lower one is stale."""
    call: CallId | None = None
    """Of a call with an effect: its id, for whoever gets requests that are made for it."""
    policy: PolicySnapshot | None = None
    so_far: OperatorProgress | None = None
    """Of a call that was made before, and whose operator was still at work then."""

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


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One request to run one callable of one plugin."""

    id: CallId
    plugin: PluginName
    callable: CallableName
    payload: Mapping[str, Any]
    context: CallContext
    idempotency_key: str | None = None


class OutcomeStatus(StrEnum):
    """How far a call got, in the Kernel's words."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"


class Stability(StrEnum):
    """How alike the answers to the same question are."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """Something a call produced that is kept elsewhere."""

    type: str
    path: str
    hash: str


@dataclass(frozen=True, slots=True)
class Nondeterminism:
    """Whether and why the same call could answer differently."""

    is_nondeterministic: bool = False
    reasons: tuple[str, ...] = ()
    stability: Stability | None = None


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Why a call failed, as a value that can be stored."""

    code: str
    message: str
    category: Category
    retryable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What came of a call."""

    status: OutcomeStatus
    result: Any = None
    artifacts: tuple[ArtifactReference, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: CallFailure | None = None
    nondeterminism: Nondeterminism = Nondeterminism()
