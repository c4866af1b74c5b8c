"""Policy rules in words, and tokenized for syntax highlighting. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import PurePath
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from paddock.policy.annotations import ApprovalRequirement
from paddock.policy.rules import SHIPPED_ORIGIN, Rule, RuleSet

RuleTokenKind: TypeAlias = Literal["plain", "note", "word", "text", "thing", "comment"]
RuleEffectText: TypeAlias = Literal["allows", "forbids", "asks"]

_EFFECT_TEXTS: Final[dict[RuleEffectText, tuple[str, str]]] = {
    "allows": ("Allows", "good"),
    "forbids": ("Forbids", "bad"),
    "asks": ("Asks a person", "busy"),
}
_APPROVAL_TEXTS: Final = {
    "confirmation": "The person the call is for confirms it.",
    "consent": "The person the call is for consents to it.",
    "action": "An approver has to approve each call.",
    "gate": "The call waits up to a week for an approver to open the gate.",
}
_REMEMBER_TEXTS: Final = {
    "tool": "The confirmation lasts for the tool until its plugin is upgraded, unless the person chooses once.",
    "plugin": "The confirmation lasts for the tool, or for the whole plugin, until the plugin is upgraded, unless the"
    " person chooses once.",
}
_TOKEN: Final = re.compile(
    r"(?P<comment>//[^\n]*)"
    r"|(?P<note>@\w+)"
    r'|(?P<thing>\w+::"(?:\\.|[^"\\])*")'
    r'|(?P<text>"(?:\\.|[^"\\])*")'
    r"|(?P<word>\b(?:permit|forbid|when|unless|principal|action|resource|context|in|is|has|like|if|then|else)\b)"
)


class RuleSummary(Struct, frozen=True):
    """One rule as shown on the page."""

    id: str
    text: str
    effect: RuleEffectText
    verb: str
    mood: str
    details: tuple[str, ...]
    fixed: bool
    own: bool
    file: str
    where: str
    line: int
    parts: tuple[tuple[RuleTokenKind, str], ...]


class RuleSetDiff(Struct, frozen=True):
    """The differences of an earlier version of the rules from a later one."""

    gone: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.gone or self.added or self.changed)


@lru_cache(maxsize=4_096)  # `rule.asks` parses the rule again
def summarize_rule(rule: Rule) -> RuleSummary:
    """Describe a rule in words."""
    effect: RuleEffectText = "asks" if rule.asks else "allows" if rule.effect == "permit" else "forbids"
    verb, mood = _EFFECT_TEXTS[effect]
    own = rule.origin != SHIPPED_ORIGIN
    details = _approval_details(rule.wanted) if effect == "asks" else []
    if rule.public_text:
        details.append(f"Callers only see: “{rule.public_text}”")
    return RuleSummary(
        rule.id,
        rule.text,
        effect,
        verb,
        mood,
        tuple(details),
        rule.fixed,
        own,
        PurePath(rule.origin).name if own else "built in",
        rule.origin if own else "",
        rule.line,
        tuple(tokenize_rule(rule.source)),
    )


def summarize_rules(rules: RuleSet) -> list[RuleSummary]:
    """Describe all rules, custom ones first. Parses each new rule, so do not call it on the event loop."""
    return sorted(map(summarize_rule, rules.rules), key=lambda summary: not summary.own)


def filter_rules(summaries: Iterable[RuleSummary], search: str, effect: str) -> list[RuleSummary]:
    """Return the rules that contain all words, and have the effect if one is given."""
    terms = search.lower().split()
    return [
        rule
        for rule in summaries
        if effect in ("", rule.effect) and all(term in f"{rule.id} {rule.text} {rule.file}".lower() for term in terms)
    ]


def tokenize_rule(source: str) -> Iterator[tuple[RuleTokenKind, str]]:
    """Split a rule's source into tokens; joined they are the source."""
    position = 0
    for match in _TOKEN.finditer(source):
        if match.start() > position:
            yield "plain", source[position : match.start()]
        token_kind: RuleTokenKind = match.lastgroup  # type: ignore[assignment]  # one of the groups above
        yield token_kind, match[0]
        position = match.end()
    if position < len(source):
        yield "plain", source[position:]


def diff_rules(before: RuleSet, now: RuleSet) -> RuleSetDiff:
    """Return the differences between two versions of the rules."""
    old, new = before.by_id, now.by_id
    return RuleSetDiff(
        tuple(name for name in old if name not in new),
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name in new and old[name].source != new[name].source),
    )


def _approval_details(requirement: ApprovalRequirement) -> list[str]:
    """Describe who is asked, how many people it takes, and how long an approval lasts."""
    details = [_APPROVAL_TEXTS[requirement.kind]]
    if requirement.kind in ("action", "gate"):
        details.append(f"Who can approve: {', '.join(requirement.approvers)}.")
        if requirement.quorum > 1:
            details.append(f"It takes {requirement.quorum} people.")
        if requirement.four_eyes:
            details.append("People cannot approve their own requests.")
    if requirement.remember in _REMEMBER_TEXTS:
        details.append(_REMEMBER_TEXTS[requirement.remember])
    return details
