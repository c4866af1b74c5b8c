"""A decision in plain words: who, what, which rule, and what would have let it happen. Pure.

What would have is found by trying: each thing that could be otherwise is changed by itself, and the rules are asked
again.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable
from paddock.policy.decision import Allow, Ask, Decision, Deny
from paddock.policy.engine import Policy
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import PolicyRequest, UseEnvironment
from paddock.policy.rules import Rule, RuleSet
from paddock.policy.schema import SHIPPED_ROLES
from paddock.policy.target import CallableTarget

RemedyOutcome: TypeAlias = Literal["allowed", "asked"]

_VERBS: Final = {"call": "call", "propose": "propose", "use": "use"}
_APPROVAL_TEXT: Final = {
    "confirmation": "the person it is for confirms it",
    "consent": "the person it is for consents to it",
    "action": "somebody who may approve it says yes",
    "gate": "somebody who may approve it opens the gate",
}

_NAME_PLACEHOLDER: Final = "NAME"  # where a command has the person's name


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that would have made a difference."""

    change: str
    outcome: RemedyOutcome
    command: str = ""
    """What whoever operates this host types to make it so; empty where no single line does."""

    def to_value(self) -> dict[str, Any]:
        """The way as JSON."""
        return {"change": self.change, "outcome": self.outcome} | ({"command": self.command} if self.command else {})

    def command_lines(self) -> list[str]:
        """The command as a line for a terminal, where there is one."""
        return [f"      → {self.command}"] if self.command else []


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything there is to say about a decision."""

    who: str
    what: str
    answer: Literal["allow", "deny", "ask"]
    because: str
    rules: tuple[Rule, ...]
    ways: tuple[Remedy, ...]
    version: str

    def lines(self) -> list[str]:
        """The explanation for a terminal."""
        said = {"allow": "may", "deny": "may not", "ask": "may, once a person has said yes,"}[self.answer]
        lines = [f"{self.who} {said} {self.what}."]
        lines += [f"  {rule.text} (rule {rule.id}, {rule.where})" for rule in self.rules] or [f"  {self.because}"]
        lines += [line for way in self.ways for line in (_remedy_text(way), *way.command_lines())]
        return lines

    def to_value(self) -> dict[str, Any]:
        """The explanation as JSON."""
        return {
            "who": self.who,
            "what": self.what,
            "decision": self.answer,
            "reason": self.because,
            "rules": [{"id": rule.id, "text": rule.text, "origin": rule.origin} for rule in self.rules],
            "would_change_it": [way.to_value() for way in self.ways],
            "policy_version": self.version,
        }


def explain(
    policy: Policy,
    request: PolicyRequest,
    decision: Decision | None = None,
    *,
    to_all: bool = False,
    described: bool = False,
) -> Explanation:
    """The decision on a request, explained.

    Args:
        policy: The rules that decided.
        request: What was asked.
        decision: What they said, where that is known already.
        to_all: Whether anybody may read it; then what a rule keeps from people is left out.
        described: Whether who asks is partly made up, so that commands about them would be about nobody.
    """
    decision = decision or policy.decide(request)
    if to_all and isinstance(decision, Deny | Ask) and decision.public_reason:
        who, answer = printable(str(request.principal)), decision_word(decision)
        return Explanation(who, describe_action(request), answer, decision.public_reason, (), (), decision.version)
    ways = find_remedies(policy, request, decision)
    if described:
        ways = tuple(dataclasses.replace(way, command="") for way in ways)
    return Explanation(
        printable(str(request.principal)),
        describe_action(request),
        decision_word(decision),
        _reason_text(decision),
        deciding_rules(policy.rules, decision.policies),
        ways,
        decision.version,
    )


def decision_word(decision: Decision) -> Literal["allow", "deny", "ask"]:
    """The one word for it."""
    match decision:
        case Allow():
            return "allow"
        case Deny():
            return "deny"
        case Ask():
            return "ask"


def describe_action(request: PolicyRequest) -> str:
    """What was to be done, in words."""
    return f"{_VERBS[request.action]} {printable(str(request.target))}"


def deciding_rules(rules: RuleSet, ids: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of a decision, as far as this version has them."""
    return tuple(rules.by_id[name] for name in ids if name in rules.by_id)


def find_remedies(policy: Policy, request: PolicyRequest, decision: Decision) -> tuple[Remedy, ...]:
    """Every single change after which the rules would have said more than they did, those that allow it first."""
    if isinstance(decision, Allow):
        return ()
    ways = [Remedy(_APPROVAL_TEXT[decision.kind], "allowed")] if isinstance(decision, Ask) else []
    for change in _variations(policy.rules, request):
        match policy.decide_uncached(change.request):
            case Allow():
                ways.append(Remedy(change.words, "allowed", change.command))
            case Ask() if isinstance(decision, Deny):
                ways.append(Remedy(change.words, "asked", change.command))
            case _:
                pass
    return tuple(sorted(ways, key=lambda way: way.outcome != "allowed"))


def _reason_text(decision: Decision) -> str:
    if isinstance(decision, Deny) and decision.cause == "nothing_allows":
        return "No rule allows it, and what no rule allows does not happen."
    return decision.reason


def _remedy_text(way: Remedy) -> str:
    if way.outcome == "allowed":
        return f"  it would be allowed if {way.change}"
    return f"  a person would be asked if {way.change}"


class _Variation(NamedTuple):
    """Something that could be otherwise: in words, the request that it would make, and what brings it about."""

    words: str
    request: PolicyRequest
    command: str = ""


def _variations(rules: RuleSet, request: PolicyRequest) -> Iterator[_Variation]:
    """Everything that could be otherwise, one at a time. Nothing that would be a lie: effects are what they are."""
    subject, target = request.principal, request.target
    who = printable(str(subject))
    yield from _principal_variations(request)
    if isinstance(request.environment, UseEnvironment):
        if not request.environment.granted:
            granted = dataclasses.replace(request.environment, granted=True)
            yield _Variation(f"{target} were granted to {who}", dataclasses.replace(request, environment=granted))
        return
    if not isinstance(target, CallableTarget):
        return
    if target.name not in subject.consents:
        consenting = dataclasses.replace(subject, consents=subject.consents | {target.name})
        words = f"{who} had enabled it and consented to it"
        yield _Variation(words, dataclasses.replace(request, principal=consenting))
    if subject.type == "Agent" and target.name not in subject.may_call:
        listed = dataclasses.replace(subject, may_call=subject.may_call | {target.name})
        yield _Variation(f"it stood on the whitelist of {who}", dataclasses.replace(request, principal=listed))
    yield from _target_variations(rules, request, target)


def _principal_variations(request: PolicyRequest) -> Iterator[_Variation]:
    """Roles to have and not to have, and groups to leave; which ones to join no rule could tell."""
    subject, who = request.principal, printable(str(request.principal))

    def standing(**changed: Any) -> PolicyRequest:
        return dataclasses.replace(request, principal=dataclasses.replace(subject, **changed))

    for role in SHIPPED_ROLES:
        if role not in subject.roles:
            command = _role_command(subject, "user", "role", _NAME_PLACEHOLDER, role)
            yield _Variation(f"{who} had the role {role}", standing(roles=subject.roles | {role}), command)
    for role in sorted(subject.roles):
        command = _role_command(subject, "user", "role", _NAME_PLACEHOLDER, role, "--remove")
        words = f"{who} had not the role {printable(role)}"
        yield _Variation(words, standing(roles=subject.roles - {role}), command)
    for group in sorted(subject.groups):
        command = _role_command(subject, "group", "member", group, _NAME_PLACEHOLDER, "--remove")
        words = f"{who} were not in the group {printable(group)}"
        yield _Variation(words, standing(groups=subject.groups - {group}), command)


def _role_command(subject: PolicyPrincipal, *words: str) -> str:
    """The command with the name of a person who was added; empty for all others, whose standing comes from elsewhere.

    Nothing is put into one that a shell would take for more than a word.
    """
    kind, _, name = subject.id.partition(":")
    if subject.type != "User" or kind != "user":
        return ""
    whole = ["paddock", *(name if word == _NAME_PLACEHOLDER else word for word in words)]
    if subject.tenant != DEFAULT_TENANT:
        whole += ["--tenant", subject.tenant]
    return " ".join(whole) if all(shlex.quote(word) == word for word in whole) else ""


def _target_variations(rules: RuleSet, request: PolicyRequest, target: CallableTarget) -> Iterator[_Variation]:
    traits = target.traits

    def with_traits(**changed: Any) -> PolicyRequest:
        other = dataclasses.replace(target, traits=dataclasses.replace(traits, **changed))
        return dataclasses.replace(request, target=other)

    known = frozenset(rules.vocabulary.tags)
    for tag in sorted(traits.tags & known):
        yield _Variation(f"it had not the tag {tag}", with_traits(tags=traits.tags - {tag}))
    for tag in sorted(known - traits.tags):
        yield _Variation(f"it had the tag {tag}", with_traits(tags=traits.tags | {tag}))
    if traits.signature in ("unsigned", "community-signed"):
        words = "somebody whom this host trusts had signed it"
        yield _Variation(words, with_traits(signature="verified", tier="verified"))
