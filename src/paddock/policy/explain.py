"""A decision in plain words: who, what, which rule, and what would have let it happen. Pure.

What would have is found by trying: each thing that could be otherwise is changed by itself, and the rules are asked
again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from paddock.core.printable import printable
from paddock.policy.decision import Allow, Ask, Decision, Deny
from paddock.policy.engine import Policy
from paddock.policy.request import Request, UseCircumstances
from paddock.policy.rules import Rule, Rules
from paddock.policy.target import CallableTarget
from paddock.policy.vocabulary import SHIPPED_ROLES

Outcome: TypeAlias = Literal["allowed", "asked"]

_VERBS: Final = {"call": "call", "propose": "propose", "use": "use"}
_KINDS: Final = {
    "confirmation": "the person it is for confirms it",
    "consent": "the person it is for consents to it",
    "action": "somebody who may approve it says yes",
    "gate": "somebody who may approve it opens the gate",
}


@dataclass(frozen=True, slots=True)
class Way:
    """One thing that would have made a difference."""

    change: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything there is to say about a decision."""

    who: str
    what: str
    answer: Literal["allow", "deny", "ask"]
    because: str
    rules: tuple[Rule, ...]
    ways: tuple[Way, ...]
    version: str

    def lines(self) -> list[str]:
        """The explanation for a terminal."""
        said = {"allow": "may", "deny": "may not", "ask": "may, once a person has said yes,"}[self.answer]
        lines = [f"{self.who} {said} {self.what}."]
        lines += [f"  {rule.text} (rule {rule.id}, {rule.where})" for rule in self.rules] or [f"  {self.because}"]
        lines += [_in_words(way) for way in self.ways]
        return lines

    def to_value(self) -> dict[str, Any]:
        """The explanation as JSON."""
        return {
            "who": self.who,
            "what": self.what,
            "decision": self.answer,
            "reason": self.because,
            "rules": [{"id": rule.id, "text": rule.text, "origin": rule.origin} for rule in self.rules],
            "would_change_it": [{"change": way.change, "outcome": way.outcome} for way in self.ways],
            "policy_version": self.version,
        }


def explain(policy: Policy, request: Request, decision: Decision | None = None, *, to_all: bool = False) -> Explanation:
    """The decision on a request, explained.

    Args:
        policy: The rules that decided.
        request: What was asked.
        decision: What they said, where that is known already.
        to_all: Whether anybody may read it; then what a rule keeps from people is left out.
    """
    decision = decision or policy.decide(request)
    if to_all and isinstance(decision, Deny | Ask) and decision.public_reason:
        who, answer = printable(str(request.subject)), answer_of(decision)
        return Explanation(who, what_of(request), answer, decision.public_reason, (), (), decision.version)
    return Explanation(
        printable(str(request.subject)),
        what_of(request),
        answer_of(decision),
        _because(decision),
        rules_that_decided(policy.rules, decision.policies),
        ways_out(policy, request, decision),
        decision.version,
    )


def answer_of(decision: Decision) -> Literal["allow", "deny", "ask"]:
    """The one word for it."""
    match decision:
        case Allow():
            return "allow"
        case Deny():
            return "deny"
        case Ask():
            return "ask"


def what_of(request: Request) -> str:
    """What was to be done, in words."""
    return f"{_VERBS[request.action]} {printable(str(request.target))}"


def rules_that_decided(rules: Rules, ids: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of a decision, as far as this version has them."""
    return tuple(rules.by_id[name] for name in ids if name in rules.by_id)


def ways_out(policy: Policy, request: Request, decision: Decision) -> tuple[Way, ...]:
    """Every single change after which the rules would have said more than they did, those that allow it first."""
    if isinstance(decision, Allow):
        return ()
    ways = [Way(_KINDS[decision.kind], "allowed")] if isinstance(decision, Ask) else []
    for change, changed in _changes(policy.rules, request):
        match policy.decide_anew(changed):
            case Allow():
                ways.append(Way(change, "allowed"))
            case Ask() if isinstance(decision, Deny):
                ways.append(Way(change, "asked"))
            case _:
                pass
    return tuple(sorted(ways, key=lambda way: way.outcome != "allowed"))


def _because(decision: Decision) -> str:
    if isinstance(decision, Deny) and decision.cause == "nothing_allows":
        return "No rule allows it, and what no rule allows does not happen."
    return decision.reason


def _in_words(way: Way) -> str:
    if way.outcome == "allowed":
        return f"  it would be allowed if {way.change}"
    return f"  a person would be asked if {way.change}"


def _changes(rules: Rules, request: Request) -> Iterator[tuple[str, Request]]:
    """Everything that could be otherwise, one at a time. Nothing that would be a lie: effects are what they are."""
    subject, target = request.subject, request.target
    who = printable(str(subject))
    for role in SHIPPED_ROLES:
        if role not in subject.roles:
            more = dataclasses.replace(subject, roles=subject.roles | {role})
            yield f"{who} had the role {role}", dataclasses.replace(request, subject=more)
    for role in sorted(subject.roles):
        fewer = dataclasses.replace(subject, roles=subject.roles - {role})
        yield f"{who} had not the role {role}", dataclasses.replace(request, subject=fewer)
    if isinstance(request.circumstances, UseCircumstances):
        if not request.circumstances.granted:
            granted = dataclasses.replace(request.circumstances, granted=True)
            yield f"{target} were granted to {who}", dataclasses.replace(request, circumstances=granted)
        return
    if not isinstance(target, CallableTarget):
        return
    if target.name not in subject.consents:
        consenting = dataclasses.replace(subject, consents=subject.consents | {target.name})
        change = f"{who} had enabled it and consented to it"
        yield change, dataclasses.replace(request, subject=consenting)
    if subject.type == "Agent" and target.name not in subject.may_call:
        listed = dataclasses.replace(subject, may_call=subject.may_call | {target.name})
        yield f"it stood on the whitelist of {who}", dataclasses.replace(request, subject=listed)
    yield from _changes_of_target(rules, request, target)


def _changes_of_target(rules: Rules, request: Request, target: CallableTarget) -> Iterator[tuple[str, Request]]:
    traits = target.traits

    def with_traits(**changed: Any) -> Request:
        other = dataclasses.replace(target, traits=dataclasses.replace(traits, **changed))
        return dataclasses.replace(request, target=other)

    known = frozenset(rules.vocabulary.tags)
    for tag in sorted(traits.tags & known):
        yield f"it had not the tag {tag}", with_traits(tags=traits.tags - {tag})
    for tag in sorted(known - traits.tags):
        yield f"it had the tag {tag}", with_traits(tags=traits.tags | {tag})
    if traits.signature in ("unsigned", "community-signed"):
        yield "somebody whom this host trusts had signed it", with_traits(signature="verified", tier="verified")
