"""The explanation of a call's decision: who, what, which rules, what would have changed it, what happened. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypedDict

from msgspec import Struct, field

from paddock.core.schema_annotations import DateTime
from paddock.host.explain.call_timeline import CallTimeline
from paddock.policy.decision import DecisionWord
from paddock.policy.explain import DecisionJson, Explanation, RemedyJson
from paddock.policy.rules import Rule, RuleJson
from paddock.principals.caller_text import caller_text

DECISION_TEXT: Final = {
    "allow": "The rules allowed it.",
    "deny": "The rules forbade it.",
    "ask": "The rules wanted a person asked first.",
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
    who_name: Annotated[str, "The name to show for it: a key by its owner and label."]
    operator: str | None
    at: DateTime
    status: str
    started: Annotated[bool, "Whether it was started; one that the rules deny is not."]
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
    same_today: Annotated[bool, "Whether that is the same decision, by the same rules."]
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


class CallExplanation(Struct, frozen=True):
    """The explanation of a call.

    Attributes:
        timeline: The timeline of the call.
        because: The reason of the decision, as text.
        rules: The rules that decided, as they were then; without those that the reader may not see.
        withheld: Whether something was withheld from the reader.
        changed: Whether other rules are in force now.
        now: The decision under today's rules; None if it cannot be determined.
        today_unknown: Why it cannot.
        names: What people and API keys are called, by principal.
    """

    timeline: CallTimeline
    because: str
    rules: tuple[Rule, ...]
    withheld: bool
    changed: bool
    now: Explanation | None
    today_unknown: str = ""
    names: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def same_today(self) -> bool:
        """Whether today's rules decide the same, so that the remedies for today would also have worked then."""
        if self.now is None or self.changed or self.withheld:
            return False
        return (self.now.answer, tuple(rule.id for rule in self.now.rules)) == (
            self.timeline.decision,
            self.timeline.policies,
        )

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
            "who_name": caller_text(timeline.who, timeline.owner, self.names),
            "operator": timeline.operator,
            "at": timeline.at,
            "status": timeline.status,
            "started": timeline.started,
            "resolution": timeline.resolution,
            "decision": timeline.decision,
            "proposed": timeline.proposed,
            "undisclosed": list(timeline.undisclosed),
            "reason": self.because,
            "rules": [rule.to_json() for rule in self.rules],
            "policy_version": timeline.policy_version,
            "would_change_it": today["would_change_it"]
            if today and self.same_today and timeline.blocked_by_policy
            else [],
            "rules_changed": self.changed,
            "today": today,
            "same_today": self.same_today,
            "today_unknown": self.today_unknown,
            "approval": timeline.approval,
            "error": dict(timeline.error) if timeline.error else None,
            "course": [{"at": step.at, "what": step.words, "entry": step.entry} for step in timeline.steps],
        }


class DenialExplanation(Struct, frozen=True):
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
            "rules": [rule.to_json() for rule in self.rules],
            "policy_version": self.policy_version,
            "rules_changed": self.changed,
        }
