"""Switchboard: an agent that proposes and never acts.

It keeps nothing between calls. Whatever it says, the Kernel checks against the actions its manifest allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from switchboard.plans import PLANS, Plan, Step

NAME, VERSION = "Switchboard", "1.0.0"
# Every action that any plan may name; the manifest's allowed_actions says the same to the Kernel.
ALLOWED_ACTIONS = ("Professor.Summarize", "Document.Process", "Email.GenerateDraft", "Email.ReviewDraft")


def propose(call: Mapping[str, Any]) -> dict[str, Any]:
    """A plan for the intent; or the context that is missing for one; or, for an unknown intent, suggestions."""
    intent: Mapping[str, Any] = call["intent"]
    context: Mapping[str, Any] = call["context"]
    kind = str(intent["intent_type"])
    plan = PLANS.get(kind)
    if plan is None:
        texts = [f"This could become one of: {', '.join(PLANS)}"]
        return _answer("next_step_suggestions", 0.2, "No plan fits this intent.", [f"intent_type:{kind}"], texts)
    missing = [field for field in plan.needs if find(context, field) is None]
    if missing:
        answer = _answer("needs_context", 1.0, "A plan would be guesswork.", [f"intent_type:{kind}"], [])
        return {**answer, "error": {"code": "NEEDS_CONTEXT", "missing": missing}}
    steps = _possible(plan, context, call.get("tool_registry", ALLOWED_ACTIONS))
    if not steps:
        return _answer("next_step_suggestions", 0.2, "Nothing that the plan needs is available.", [], [plan.question])
    signals = [f"intent_type:{kind}", *(f"has_{field}" for field in _used(plan, context))]
    # The more of the plan is possible, the surer it is to reach its end.
    confidence = round(0.9 * len(steps) / len(plan.steps), 2)
    return {
        **_answer("plan_proposal", confidence, plan.why, signals, [plan.question]),
        "required_actions": [_action(step, context) for step in steps if step.gate == "none"],
        "proposed_plan": {
            "steps": [
                {"step_id": f"s{number}", "action": step.action, "gate": step.gate}
                for number, step in enumerate(steps, start=1)
            ]
        },
    }


def find(context: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or None."""
    value: Any = context
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(key)
    return value


def _possible(plan: Plan, context: Mapping[str, Any], registry: Any) -> list[Step]:
    """The steps whose action is on offer and whose own context is there."""
    return [
        step
        for step in plan.steps
        if step.action in registry
        and step.action in ALLOWED_ACTIONS
        and all(find(context, field) is not None for field in step.takes.values())
    ]


def _used(plan: Plan, context: Mapping[str, Any]) -> list[str]:
    fields = [*plan.needs, *(field for step in plan.steps for field in step.takes.values())]
    return [field for field in fields if find(context, field) is not None]


def _action(step: Step, context: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "operator": step.action,
        "payload": {field: find(context, place) for field, place in step.takes.items()},
        "policy_tags": ["read_only"],
        "idempotency_hint": ":".join([step.action, *(f"{{{field}}}" for field in step.takes)]),
    }


def _answer(kind: str, confidence: float, short: str, signals: list[str], texts: list[str]) -> dict[str, Any]:
    return {
        "agent_name": NAME,
        "agent_version": VERSION,
        "kind": kind,
        "confidence": confidence,
        "rationale": {"short": short, "signals": signals},
        "suggestions": [{"type": "followup", "text": text} for text in texts],
    }
