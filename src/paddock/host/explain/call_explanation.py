"""The explanation of a call's decision: who, what, which rules, what would have changed it, what happened. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypedDict

from paddock.core.action import ActionRenderer, action_sentence
from paddock.core.printable import printable
from paddock.core.schema_annotations import DateTime
from paddock.host.explain.call_timeline import ERASED_NAME, CallTimeline
from paddock.policy.decision import DecisionWord
from paddock.policy.explain import DecisionJson, Explanation, Remedy, RemedyJson
from paddock.policy.rules import Rule, RuleJson

DECISION_TEXT: Final = {
    "allow": "The rules allowed it.",
    "deny": "The rules forbade it.",
    "ask": "The rules wanted a person asked first.",
}
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
    "voided": "the request for a yes is void",
    "withdrawn": "it was not wanted any more",
}


class TimelineStepJson(TypedDict):
    """One step of a call."""

    at: DateTime
    what: str
    entry: Annotated[str, "The ledger entry that records it."]


class CallExplanationJson(TypedDict):
    """Why a call was allowed, denied or held for approval."""

    call_id: str
    request_id: str | None
    plugin: str
    callable: str
    name: str
    version: str | None
    effects: list[str]
    who: Annotated[str | None, "Null if it was erased."]
    operator: str | None
    at: DateTime
    status: str
    resolution: str | None
    decision: Annotated[DecisionWord | None, "Null if the call ended before the rules were consulted."]
    proposed: Annotated[str | None, "The proposal of the agent that was called, if that was decided on."]
    undisclosed: Annotated[list[str], "Sources that it used without disclosing them."]
    reason: str
    rules: Annotated[list[RuleJson], "The rules that decided, as they were then."]
    policy_version: str | None
    would_change_it: list[RemedyJson]
    rules_changed: Annotated[bool, "Whether other rules are in force now."]
    today: Annotated[DecisionJson | None, "The decision under today's rules."]
    today_unknown: Annotated[str, "Why that cannot be determined; empty if it can."]
    approval: str | None
    error: dict[str, Any] | None
    course: list[TimelineStepJson]


class DenialExplanationJson(TypedDict):
    """Why a capability request of a plugin was denied."""

    entry: str
    request_id: str | None
    plugin: str
    method: str
    capability: str | None
    at: DateTime
    status: Literal["denied"]
    decision: Literal["deny"]
    reason: str
    rules: list[RuleJson]
    policy_version: str | None
    rules_changed: bool


@dataclass(frozen=True, slots=True)
class CallExplanation:
    """The explanation of a call.

    Attributes:
        timeline: The timeline of the call.
        because: The reason of the decision, as text.
        rules: The rules that decided, as they were then; without those that the reader may not see.
        withheld: Whether something was withheld from the reader.
        changed: Whether other rules are in force now.
        now: The decision under today's rules; None if it cannot be determined.
        today_unknown: Why it cannot.
    """

    timeline: CallTimeline
    because: str
    rules: tuple[Rule, ...]
    withheld: bool
    changed: bool
    now: Explanation | None
    today_unknown: str = ""

    @property
    def same_today(self) -> bool:
        """Whether today's rules decide the same, so that the remedies for today would also have worked then."""
        if self.now is None or self.changed or self.withheld:
            return False
        return (self.now.answer, tuple(rule.id for rule in self.now.rules)) == (
            self.timeline.decision,
            self.timeline.policies,
        )

    def lines(self, render: ActionRenderer = action_sentence) -> list[str]:
        """Format the explanation for a terminal."""
        timeline = self.timeline
        who = printable(timeline.who or ERASED_NAME)
        typed_by = (
            f" (typed by {printable(timeline.operator)})"
            if timeline.operator and who != f"local:{timeline.operator}"
            else ""
        )
        time = timeline.at[:19].replace("T", " at ")
        outcome = (
            f"it was in doubt; {timeline.resolution}"
            if timeline.resolution
            else _STATUS_TEXT.get(timeline.status, timeline.status)
        )
        lines = [f"{who}{typed_by} called {printable(timeline.name)} on {time} UTC: {outcome}."]
        if timeline.proposed is not None:
            lines += [f"  Its answer proposed {printable(timeline.proposed, 200)}."]
        lines += [f"  {printable(self.because, 600)}"]
        lines += _rule_lines(self.rules)
        lines += self._today_lines(render)
        lines += ["What happened:"]
        lines += [f"  {step.at[11:19]}  {printable(step.words, 600)}" for step in timeline.steps]
        ids = [timeline.call, timeline.request, timeline.approval, timeline.policy_version]
        lines += [f"  {printable(' · '.join(identifier for identifier in ids if identifier), 300)}"]
        return lines

    def _today_lines(self, render: ActionRenderer) -> list[str]:
        if self.withheld or not self.timeline.blocked_by_policy:
            return []
        if self.now is None:
            return [f"  The decision under today's rules is unknown: {printable(self.today_unknown, 400)}."]
        first, *rest = self.now.lines(render)
        if self.same_today:
            denied = self.now.answer == "deny"
            remedies = [
                line
                for remedy in self.now.ways
                for line in (f"  {_describe_remedy(remedy, denied=denied)}", *remedy.action_lines(render))
            ]
            return remedies or ["  nothing by itself would have allowed it"]
        reason = "Other rules hold now." if self.changed else "Today the same rules come to something else."
        return [f"{reason} {first}", *rest]

    def to_value(self) -> CallExplanationJson:
        """Serialize the explanation."""
        timeline = self.timeline
        today = self.now.to_value() if self.now is not None else None
        return {
            "call_id": timeline.call,
            "request_id": timeline.request,
            "plugin": timeline.plugin,
            "callable": timeline.callable,
            "name": timeline.name,
            "version": timeline.version,
            "effects": list(timeline.effects),
            "who": timeline.who,
            "operator": timeline.operator,
            "at": timeline.at,
            "status": timeline.status,
            "resolution": timeline.resolution,
            "decision": timeline.decision,
            "proposed": timeline.proposed,
            "undisclosed": list(timeline.undisclosed),
            "reason": self.because,
            "rules": _rules_to_json(self.rules),
            "policy_version": timeline.policy_version,
            "would_change_it": today["would_change_it"]
            if today and self.same_today and timeline.blocked_by_policy
            else [],
            "rules_changed": self.changed,
            "today": today,
            "today_unknown": self.today_unknown,
            "approval": timeline.approval,
            "error": dict(timeline.error) if timeline.error else None,
            "course": [{"at": step.at, "what": step.words, "entry": step.entry} for step in timeline.steps],
        }


@dataclass(frozen=True, slots=True)
class DenialExplanation:
    """The explanation of a denied capability request of a plugin.

    Attributes:
        entry: The ledger entry's id.
        method: The method that the plugin called.
        capability: The capability that it requires.
        because: The reason, as text.
        rules: The rules that decided, as they were then.
        changed: Whether other rules are in force now.
    """

    entry: str
    plugin: str
    method: str
    capability: str | None
    request: str | None
    at: str
    because: str
    rules: tuple[Rule, ...]
    policy_version: str | None
    changed: bool

    def lines(self, render: ActionRenderer = action_sentence) -> list[str]:
        """Format the explanation for a terminal."""
        del render  # none of its remedies is an action
        time = self.at[:19].replace("T", " at ")
        lines = [f"{printable(self.plugin)} asked the host for {printable(self.method)} on {time} UTC: it was denied."]
        lines += [f"  {printable(self.because, 600)}", *_rule_lines(self.rules)]
        if self.changed:
            lines.append("  Other rules hold now.")
        ids = [self.entry, self.request, self.policy_version]
        return [*lines, f"  {printable(' · '.join(identifier for identifier in ids if identifier), 300)}"]

    def to_value(self) -> DenialExplanationJson:
        """Serialize the explanation."""
        return {
            "entry": self.entry,
            "request_id": self.request,
            "plugin": self.plugin,
            "method": self.method,
            "capability": self.capability,
            "at": self.at,
            "status": "denied",
            "decision": "deny",
            "reason": self.because,
            "rules": _rules_to_json(self.rules),
            "policy_version": self.policy_version,
            "rules_changed": self.changed,
        }


def _describe_remedy(remedy: Remedy, *, denied: bool) -> str:
    """Describe a remedy: what would have changed the decision, or still would for a pending request."""
    if remedy.outcome == "allowed":
        return f"it would {'have been' if denied else 'be'} allowed if {remedy.change}"
    return f"a person would have been asked if {remedy.change}"


def _rule_lines(rules: tuple[Rule, ...]) -> list[str]:
    return [f"  {printable(rule.text, 400)} (rule {rule.id}, {printable(rule.where)})" for rule in rules]


def _rules_to_json(rules: tuple[Rule, ...]) -> list[RuleJson]:
    return [
        {"id": rule.id, "text": rule.text, "effect": rule.effect, "origin": rule.origin, "line": rule.line}
        for rule in rules
    ]
