"""Dry runs: what a call would meet at the gate, without an approval request, a claimed key or a running plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.call import CallContext
from paddock.core.canonical import hash_of
from paddock.core.errors import CallerError, Invalid, MistakeJson, Problem
from paddock.core.events.calls import CallDryRun
from paddock.core.ids import CallId, new_id
from paddock.core.scopes import require_scopes
from paddock.gate.authorization import denied_error
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.gate import Gate
from paddock.gate.invocation import Invocation
from paddock.manifest.effects import effect_texts
from paddock.policy.decision import Allow, ApprovalKind, Ask, Decision, DecisionWord, Deny

DryRunOutcome = Literal["run", "wait_for_approval", "be_denied", "be_rejected"]


class ApprovalNeededJson(TypedDict):
    """The approval that a call would need."""

    kind: ApprovalKind
    approvers: Annotated[list[str], "Who may answer; empty where the person that the call is for does."]
    quorum: Annotated[int, "How many people must approve."]
    four_eyes: Annotated[bool, "Whether another person than the caller must approve."]
    standing: Annotated[str | None, "The standing approval that already answers it."]


class DryRunJson(TypedDict):
    """The outcome that a call would have. Nothing ran, and no approval was requested."""

    dry_run: Annotated[bool, "Always true."]
    plugin: str
    callable: str
    version: str
    effects: list[str]
    does: Annotated[list[str], "The effects in words; where they are unknown, what the tool says of itself."]
    would: DryRunOutcome
    decision: DecisionWord
    reason: str
    policies: Annotated[list[str], "The rules that decide."]
    policy_version: str
    approval: Annotated[ApprovalNeededJson | None, "Null where no approval is needed."]
    problems: Annotated[list[MistakeJson], "Parameters that do not fit the input schema."]
    schema_known: Annotated[bool, "False for a server that has never run: only then does it list its schemas."]
    missing_secrets: Annotated[list[str], "Secrets that the operation needs and that are not set."]


class DryRun(Struct, frozen=True):
    """The outcome of a dry run."""

    target: CallTarget
    decision: Decision
    approval: ApprovalNeededJson | None
    problems: tuple[Problem, ...]
    missing_secrets: tuple[str, ...]

    @property
    def would(self) -> DryRunOutcome:
        """What would become of the call, by the first stage of the gate that stops it."""
        if self.problems:
            return "be_rejected"
        if isinstance(self.decision, Deny):
            return "be_denied"
        if self.missing_secrets:
            return "be_rejected"
        return "wait_for_approval" if self.approval and self.approval["standing"] is None else "run"

    def to_json(self) -> DryRunJson:
        """Serialize the outcome for the caller, without reasons that a rule keeps from people."""
        target, decision = self.target, self.decision
        public = "" if isinstance(decision, Allow) else decision.public_reason
        return {
            "dry_run": True,
            "plugin": target.key.plugin,
            "callable": target.spec.name,
            "version": target.manifest.version,
            "effects": list(target.effects),
            "does": effect_texts(target.effects, target.claim),
            "would": self.would,
            "decision": cast("DecisionWord", decision.word),
            "reason": public or decision.reason,
            "policies": [] if public else list(decision.policies),
            "policy_version": decision.version,
            "approval": self.approval,
            "problems": [problem.to_dict() for problem in self.problems],
            "schema_known": not target.dynamic or target.discovered,
            "missing_secrets": list(self.missing_secrets),
        }


async def dry_run(gate: Gate, target: CallTarget, payload: Mapping[str, Any], context: CallContext) -> DryRun:
    """Decide and validate a call as the gate would, and record the dry run.

    The decision is the one about the call itself, without `context.dry_run`: it says what would happen. The rules see
    the dry run too, and may forbid it to callers who may make the call. A server that lists its own callables is not
    started: its last accepted definitions count.

    Raises:
        Denied: the caller lacks a scope, or the rules forbid the dry run.
        Busy: a rate limit is exceeded.
        PaddockError: the target is withheld, or nothing can be recorded now.
    """
    if gate.audit_log.failing is not None:
        raise gate.audit_log.failing
    require_scopes(target.key.plugin, target.requested_name, target.spec.required_scopes, context.principal)
    gate.rate_limiter.take_for_principal(context.tenant, context.principal.id)
    if target.withheld is not None:
        raise target.withheld.unavailable_error(target.key.plugin, target.requested_name, target.key.tenant)
    call_id = CallId(new_id("call", gate.clock, gate.random))
    decision = await gate.authorizer.decide(target, replace(context, dry_run=False))
    own_decision = await gate.authorizer.decide(target, replace(context, dry_run=True))
    if isinstance(own_decision, Deny) and not isinstance(decision, Deny):
        _record(gate, target, payload, context, own_decision, "be_denied")
        raise denied_error(own_decision, target, call_id)
    outcome = DryRun(
        target,
        decision,
        await _approval_needed(gate, Invocation(call_id, target, payload, context, gate.clock.monotonic()), decision),
        _schema_problems(gate, target, payload),
        await _missing_secrets(gate, target, payload, context),
    )
    _record(gate, target, payload, context, decision, outcome.would)
    return outcome


async def _approval_needed(gate: Gate, invocation: Invocation, decision: Decision) -> ApprovalNeededJson | None:
    if not isinstance(decision, Ask):
        return None
    invocation.decision = decision
    return {
        "kind": decision.kind,
        "approvers": list(decision.approvers),
        "quorum": decision.quorum,
        "four_eyes": await gate.starter.needs_another_person(invocation.context.tenant, decision),
        "standing": await gate.starter.find_standing(invocation, decision),
    }


def _schema_problems(gate: Gate, target: CallTarget, payload: Mapping[str, Any]) -> tuple[Problem, ...]:
    try:
        gate.require_valid(target, payload)
    except Invalid as invalid:
        return tuple(invalid.problems)
    return ()


async def _missing_secrets(
    gate: Gate, target: CallTarget, payload: Mapping[str, Any], context: CallContext
) -> tuple[str, ...]:
    try:
        await gate.require_secrets(target, payload, context)
    except CallerError as error:
        if error.error_code != "missing_secrets":
            raise
        return tuple(error.details["missing"])
    return ()


def _record(
    gate: Gate,
    target: CallTarget,
    payload: Mapping[str, Any],
    context: CallContext,
    decision: Decision,
    would: DryRunOutcome,
) -> None:
    event = CallDryRun(
        name=target.key.plugin,
        method=target.spec.name,
        version=target.manifest.version,
        digest=target.key.digest,
        request_id=context.request,
        operator_id=context.operator,
        owner=context.principal.owner,
        payload_hash=hash_of(payload),
        decision=decision.word,
        policies=tuple(decision.policies),
        policy_version=decision.version,
        would=would,
    )
    gate.audit_log.enqueue(event, context.tenant, request=context.request, principal=context.principal.id, soon=True)
