"""A rule in words for people, and its text taken apart for the eye. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Final, Literal, TypeAlias

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
    "action": "Somebody who can approve says yes first.",
    "gate": "It waits up to a week until somebody who can approve opens the gate.",
}
_REMEMBER_TEXTS: Final = {
    "tool": "A yes can be kept for the tool.",
    "plugin": "A yes can be kept for the whole plugin.",
}
_TOKEN: Final = re.compile(
    r"(?P<comment>//[^\n]*)"
    r"|(?P<note>@\w+)"
    r'|(?P<thing>\w+::"(?:\\.|[^"\\])*")'
    r'|(?P<text>"(?:\\.|[^"\\])*")'
    r"|(?P<word>\b(?:permit|forbid|when|unless|principal|action|resource|context|in|is|has|like|if|then|else)\b)"
)


@dataclass(frozen=True, slots=True)
class RuleSummary:
    """One rule, as a page tells it."""

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


@dataclass(frozen=True, slots=True)
class RuleSetDiff:
    """What an earlier version of the rules has otherwise than another."""

    gone: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.gone or self.added or self.changed)


@lru_cache(maxsize=4_096)  # whether a rule asks is found by reading it again
def summarize_rule(rule: Rule) -> RuleSummary:
    """A rule in words."""
    effect: RuleEffectText = "asks" if rule.asks else "allows" if rule.effect == "permit" else "forbids"
    verb, mood = _EFFECT_TEXTS[effect]
    own = rule.origin != SHIPPED_ORIGIN
    details = _approval_details(rule.wanted) if effect == "asks" else []
    if rule.public_text:
        details.append(f"Whoever calls is only told: “{rule.public_text}”")
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
    """Every rule in words, one's own first. Reads each rule that it never read before: not for the event loop."""
    return sorted(map(summarize_rule, rules.rules), key=lambda one: not one.own)


def filter_rules(told: Iterable[RuleSummary], words: str, effect: str) -> list[RuleSummary]:
    """Those that have all of these words in them, and this effect where one is named."""
    wanted = words.lower().split()
    return [
        one
        for one in told
        if effect in ("", one.effect) and all(word in f"{one.id} {one.text} {one.file}".lower() for word in wanted)
    ]


def tokenize_rule(source: str) -> Iterator[tuple[RuleTokenKind, str]]:
    """The text of a rule in pieces, each with what it is; put together they are the text."""
    at = 0
    for found in _TOKEN.finditer(source):
        if found.start() > at:
            yield "plain", source[at : found.start()]
        kind: RuleTokenKind = found.lastgroup  # type: ignore[assignment]  # one of the groups above
        yield kind, found[0]
        at = found.end()
    if at < len(source):
        yield "plain", source[at:]


def diff_rules(before: RuleSet, now: RuleSet) -> RuleSetDiff:
    """What changed from one version to another."""
    old, new = before.by_id, now.by_id
    return RuleSetDiff(
        tuple(name for name in old if name not in new),
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name in new and old[name].source != new[name].source),
    )


def _approval_details(wanted: ApprovalRequirement) -> list[str]:
    """Who is asked, how many of them, and for how long a yes lasts."""
    told = [_APPROVAL_TEXTS[wanted.kind]]
    if wanted.kind in ("action", "gate"):
        told.append(f"Who can approve: {', '.join(wanted.approvers)}.")
        if wanted.quorum > 1:
            told.append(f"It takes {wanted.quorum} people.")
        if wanted.four_eyes:
            told.append("Nobody approves their own request.")
    if wanted.remember in _REMEMBER_TEXTS:
        told.append(_REMEMBER_TEXTS[wanted.remember])
    return told
