"""Explanations of decisions as text for a terminal, from what the API returns. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from paddock.cli.output.action_text import command_line
from paddock.cli.output.outcome_text import requester_text
from paddock.core.action import Action
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.host.explain.call_explanation import CallExplanationJson, DenialExplanationJson
    from paddock.policy.explain import DecisionJson, RemedyJson
    from paddock.policy.rules import RuleJson

_ERASED_NAME: Final = "an erased person"
_STATUS_TEXT: Final = {
    "succeeded": "it succeeded",
    "failed": "it failed",
    "denied": "it was denied",
    "refused": "it was refused",
    "in_doubt": "its outcome is unknown",
    "timed_out": "it took too long",
    "cancelled": "it was cancelled",
    "pending_approval": "it waits for a person",
    "started": "it started, and no end is recorded",
    "expired": "it was not answered in time",
    "voided": "the approval request is void",
    "withdrawn": "it was not wanted any more",
}


def decision_lines(decision: DecisionJson) -> list[str]:
    """Format the decision on a call: the first line says what it is."""
    verb = {"allow": "may", "deny": "may not", "ask": "may, once a person approves it,"}[decision["decision"]]
    lines = [f"{printable(decision['who'])} {verb} {printable(decision['what'], 300)}."]
    lines += _rule_lines(decision["rules"]) or [f"  {printable(decision['reason'], 600)}"]
    for remedy in decision["would_change_it"]:
        outcome = "it would be allowed" if remedy["outcome"] == "allowed" else "a person would be asked"
        lines += [f"  {outcome} if {printable(remedy['change'], 400)}", *_action_lines(remedy)]
    return lines


def explanation_lines(explanation: CallExplanationJson | DenialExplanationJson) -> list[str]:
    """Format an explanation: the first line says who called or asked for what, and how it ended."""
    return _call_lines(explanation) if "call_id" in explanation else _denial_lines(explanation)


def _call_lines(call: CallExplanationJson) -> list[str]:
    who = requester_text(call["who"], call["who_name"]) or _ERASED_NAME
    operator = call["operator"]
    made_by = (
        f" (made by the operator {printable(operator)})" if operator and call["who"] != f"local:{operator}" else ""
    )
    if call["resolution"]:
        outcome = f"it was in doubt; {printable(call['resolution'], 400)}"
    else:
        outcome = _STATUS_TEXT.get(call["status"], printable(call["status"]))
    lines = [f"{who}{made_by} called {printable(call['name'])} on {_time_text(call['at'])}: {outcome}."]
    if call["proposed"] is not None:
        lines += [f"  Its answer proposed {printable(call['proposed'], 200)}."]
    lines += [f"  {printable(call['reason'], 600)}", *_rule_lines(call["rules"]), *_today_lines(call)]
    lines += ["What happened:"]
    lines += [f"  {step['at'][11:19]}  {printable(step['what'], 600)}" for step in call["course"]]
    return [*lines, _id_line(call["call_id"], call["request_id"], call["approval"], call["policy_version"])]


def _denial_lines(denial: DenialExplanationJson) -> list[str]:
    subject = f"{printable(denial['plugin'])} asked the host for {printable(denial['method'])}"
    lines = [f"{subject} on {_time_text(denial['at'])}: it was denied."]
    lines += [f"  {printable(denial['reason'], 600)}", *_rule_lines(denial["rules"])]
    if denial["rules_changed"]:
        lines.append("  Other rules hold now.")
    return [*lines, _id_line(denial["entry"], denial["request_id"], denial["policy_version"])]


def _today_lines(call: CallExplanationJson) -> list[str]:
    """Format what would have changed the decision; if today's rules decide otherwise, what they decide."""
    today, denied = call["today"], call["decision"] == "deny"
    if not denied and (call["decision"] != "ask" or call["started"]):
        return []  # the rules did not keep it from starting
    if today is None:
        unknown = call["today_unknown"]
        return [f"  The decision under today's rules is unknown: {printable(unknown, 400)}."] if unknown else []
    if not call["same_today"]:
        reason = "Other rules hold now." if call["rules_changed"] else "Today the same rules come to something else."
        first, *rest = decision_lines(today)
        return [f"{reason} {first}", *rest]
    lines: list[str] = []
    for remedy in call["would_change_it"]:
        if remedy["outcome"] == "allowed":
            outcome = f"it would {'have been' if denied else 'be'} allowed"
        else:
            outcome = "a person would have been asked"
        lines += [f"  {outcome} if {printable(remedy['change'], 400)}", *_action_lines(remedy)]
    return lines or ["  nothing by itself would have allowed it"]


def _rule_lines(rules: Iterable[RuleJson]) -> list[str]:
    return [
        f"  {printable(rule['text'], 400)} (rule {printable(rule['id'])}, {printable(rule['origin'], 400)}, "
        f"line {rule['line']})"
        for rule in rules
    ]


def _action_lines(remedy: RemedyJson) -> list[str]:
    action = Action.from_json(remedy.get("action"))
    return [f"      → {printable(command_line(action), 300)}"] if action else []


def _time_text(at: str) -> str:
    return f"{at[:19].replace('T', ' at ')} UTC"


def _id_line(*identifiers: Any) -> str:
    return f"  {printable(' · '.join(identifier for identifier in identifiers if identifier), 300)}"
