"""A decision in plain words: who, what, which rules, what would have changed it, and what happened. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from paddock.core.printable import printable
from paddock.host.explain.call_timeline import ERASED_NAME, CallTimeline
from paddock.policy.explain import Explanation, Remedy
from paddock.policy.rules import Rule

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
    "in_doubt": "it may have happened, and nobody knows",
    "timed_out": "it took too long",
    "cancelled": "it was cancelled",
    "pending_approval": "it waits for a person",
    "started": "it started, and no end is recorded",
    "expired": "nobody answered in time",
    "voided": "the request for a yes is void",
    "withdrawn": "it was not wanted any more",
}


@dataclass(frozen=True, slots=True)
class CallExplanation:
    """A call, explained.

    Attributes:
        story: What happened.
        because: Why the rules said what they said, in words.
        rules: Those that decided, as they were then; without what is kept from whoever reads this.
        kept: Whether something was left out of it.
        changed: Whether other rules hold now.
        now: What they say today; None where that cannot be told.
        unknown: Why it cannot.
    """

    story: CallTimeline
    because: str
    rules: tuple[Rule, ...]
    kept: bool
    changed: bool
    now: Explanation | None
    unknown: str = ""

    @property
    def same_today(self) -> bool:
        """Whether the rules come to the same today, so that what would change it now would have changed it then."""
        if self.now is None or self.changed or self.kept:
            return False
        return (self.now.answer, tuple(rule.id for rule in self.now.rules)) == (
            self.story.decision,
            self.story.policies,
        )

    def lines(self) -> list[str]:
        """The explanation for a terminal."""
        story = self.story
        who = printable(story.who or ERASED_NAME)
        by = f" (typed by {printable(story.operator)})" if story.operator and who != f"local:{story.operator}" else ""
        at = story.at[:19].replace("T", " at ")
        became = (
            f"it was in doubt; {story.resolution}" if story.resolution else _STATUS_TEXT.get(story.status, story.status)
        )
        lines = [f"{who}{by} called {printable(story.name)} on {at} UTC: {became}."]
        if story.proposed is not None:
            lines += [f"  Its answer proposed {printable(story.proposed, 200)}."]
        lines += [f"  {printable(self.because, 600)}"]
        lines += _rule_lines(self.rules)
        lines += self._today_lines()
        lines += ["What happened:"]
        lines += [f"  {step.at[11:19]}  {printable(step.words, 600)}" for step in story.steps]
        ids = [story.call, story.request, story.approval, story.policy_version]
        lines += [f"  {printable(' · '.join(one for one in ids if one), 300)}"]
        return lines

    def _today_lines(self) -> list[str]:
        if self.kept or not self.story.blocked_by_policy:
            return []
        if self.now is None:
            return [f"  What the rules would say today cannot be told: {printable(self.unknown, 400)}."]
        first, *rest = self.now.lines()
        if self.same_today:
            denied = self.now.answer == "deny"
            ways = [
                line
                for way in self.now.ways
                for line in (f"  {_describe_way(way, denied=denied)}", *way.command_lines())
            ]
            return ways or ["  nothing by itself would have allowed it"]
        why = "Other rules hold now." if self.changed else "Today the same rules come to something else."
        return [f"{why} {first}", *rest]

    def to_value(self) -> dict[str, Any]:
        """The explanation as JSON."""
        story = self.story
        today = self.now.to_value() if self.now is not None else None
        return {
            "call_id": story.call,
            "request_id": story.request,
            "plugin": story.plugin,
            "callable": story.callable,
            "name": story.name,
            "version": story.version,
            "effects": list(story.effects),
            "who": story.who,
            "operator": story.operator,
            "at": story.at,
            "status": story.status,
            "resolution": story.resolution,
            "decision": story.decision,
            "proposed": story.proposed,
            "undisclosed": list(story.undisclosed),
            "reason": self.because,
            "rules": _rules_to_json(self.rules),
            "policy_version": story.policy_version,
            "would_change_it": today["would_change_it"]
            if today and self.same_today and story.blocked_by_policy
            else [],
            "rules_changed": self.changed,
            "today": today,
            "today_unknown": self.unknown,
            "approval": story.approval,
            "error": dict(story.error) if story.error else None,
            "course": [{"at": step.at, "what": step.words, "entry": step.entry} for step in story.steps],
        }


@dataclass(frozen=True, slots=True)
class DenialExplanation:
    """A plugin asked the host for something and did not get it, explained.

    Attributes:
        entry: Where it is recorded.
        method: What it called.
        capability: What that takes.
        because: Why, in words.
        rules: Those that decided, as they were then.
        changed: Whether other rules hold now.
    """

    entry: str
    plugin: str
    method: str
    capability: str
    request: str | None
    at: str
    because: str
    rules: tuple[Rule, ...]
    policy_version: str | None
    changed: bool

    def lines(self) -> list[str]:
        """The explanation for a terminal."""
        at = self.at[:19].replace("T", " at ")
        lines = [f"{printable(self.plugin)} asked the host for {printable(self.method)} on {at} UTC: it was denied."]
        lines += [f"  {printable(self.because, 600)}", *_rule_lines(self.rules)]
        if self.changed:
            lines.append("  Other rules hold now.")
        ids = [self.entry, self.request, self.policy_version]
        return [*lines, f"  {printable(' · '.join(one for one in ids if one), 300)}"]

    def to_value(self) -> dict[str, Any]:
        """The explanation as JSON."""
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


def _describe_way(way: Remedy, *, denied: bool) -> str:
    """What would have made a difference; or still would, to what waits for a person."""
    if way.outcome == "allowed":
        return f"it would {'have been' if denied else 'be'} allowed if {way.change}"
    return f"a person would have been asked if {way.change}"


def _rule_lines(rules: tuple[Rule, ...]) -> list[str]:
    return [f"  {printable(rule.text, 400)} (rule {rule.id}, {printable(rule.where)})" for rule in rules]


def _rules_to_json(rules: tuple[Rule, ...]) -> list[dict[str, Any]]:
    return [
        {"id": rule.id, "text": rule.text, "effect": rule.effect, "origin": rule.origin, "line": rule.line}
        for rule in rules
    ]
