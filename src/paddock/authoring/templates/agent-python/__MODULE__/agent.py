"""The agent: it proposes and never acts, and keeps nothing between calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ACTION = "Letter.Answer"  # the manifest's allowed_actions says the same


def propose(call: Mapping[str, Any]) -> dict[str, Any]:
    """`call` has `intent`, `context`, `policy_snapshot`, `tool_registry`, `constraints` and `runtime`."""
    text = call["context"].get("letter", {}).get("text")
    if text is None:
        missing = {"error": {"code": "NEEDS_CONTEXT", "missing": ["letter.text"]}}
        return {**_answer("needs_context", 1.0, "Without the letter an answer would be guesswork.", []), **missing}
    if ACTION not in call.get("tool_registry", [ACTION]):
        return _answer("next_step_suggestions", 0.2, "Nothing here can answer letters.", ["has_letter.text"])
    return {
        **_answer("plan_proposal", 0.8, "A letter wants an answer that a person sees first.", ["has_letter.text"]),
        "required_actions": [],
        "proposed_plan": {"steps": [{"step_id": "s1", "action": ACTION, "gate": "human_apply"}]},
    }


def _answer(kind: str, confidence: float, short: str, signals: list[str]) -> dict[str, Any]:
    return {
        "agent_name": "__NAME__",
        "agent_version": "0.1.0",
        "kind": kind,
        "confidence": confidence,
        "rationale": {"short": short, "signals": signals},
        "suggestions": [],
    }
