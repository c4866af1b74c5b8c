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
from paddock.policy.request import Request, UseCircumstances
from paddock.policy.rules import Rule, Rules
from paddock.policy.subject import Subject
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

_NAME: Final = "NAME"  # where a command has the person's name


@dataclass(frozen=True, slots=True)
class Way:
    """One thing that would have made a difference."""

    change: str
    outcome: Outcome
    command: str = ""
    """What whoever operates this host types to make it so; empty where no single line does."""

    def to_value(self) -> dict[str, Any]:
        """The way as JSON."""
        return {"change": self.change, "outcome": self.outcome} | ({"command": self.command} if self.command else {})

    def typed(self) -> list[str]:
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
    ways: tuple[Way, ...]
    version: str

    def lines(self) -> list[str]:
        """The explanation for a terminal."""
        said = {"allow": "may", "deny": "may not", "ask": "may, once a person has said yes,"}[self.answer]
        lines = [f"{self.who} {said} {self.what}."]
        lines += [f"  {rule.text} (rule {rule.id}, {rule.where})" for rule in self.rules] or [f"  {self.because}"]
        lines += [line for way in self.ways for line in (_in_words(way), *way.typed())]
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
    request: Request,
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
        who, answer = printable(str(request.subject)), answer_of(decision)
        return Explanation(who, what_of(request), answer, decision.public_reason, (), (), decision.version)
    ways = ways_out(policy, request, decision)
    if described:
        ways = tuple(dataclasses.replace(way, command="") for way in ways)
    return Explanation(
        printable(str(request.subject)),
        what_of(request),
        answer_of(decision),
        _because(decision),
        rules_that_decided(policy.rules, decision.policies),
        ways,
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
    for change in _changes(policy.rules, request):
        match policy.decide_anew(change.request):
            case Allow():
                ways.append(Way(change.words, "allowed", change.command))
            case Ask() if isinstance(decision, Deny):
                ways.append(Way(change.words, "asked", change.command))
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


class _Change(NamedTuple):
    """Something that could be otherwise: in words, the request that it would make, and what brings it about."""

    words: str
    request: Request
    command: str = ""


def _changes(rules: Rules, request: Request) -> Iterator[_Change]:
    """Everything that could be otherwise, one at a time. Nothing that would be a lie: effects are what they are."""
    subject, target = request.subject, request.target
    who = printable(str(subject))
    yield from _changes_of_standing(request)
    if isinstance(request.circumstances, UseCircumstances):
        if not request.circumstances.granted:
            granted = dataclasses.replace(request.circumstances, granted=True)
            yield _Change(f"{target} were granted to {who}", dataclasses.replace(request, circumstances=granted))
        return
    if not isinstance(target, CallableTarget):
        return
    if target.name not in subject.consents:
        consenting = dataclasses.replace(subject, consents=subject.consents | {target.name})
        words = f"{who} had enabled it and consented to it"
        yield _Change(words, dataclasses.replace(request, subject=consenting))
    if subject.type == "Agent" and target.name not in subject.may_call:
        listed = dataclasses.replace(subject, may_call=subject.may_call | {target.name})
        yield _Change(f"it stood on the whitelist of {who}", dataclasses.replace(request, subject=listed))
    yield from _changes_of_target(rules, request, target)


def _changes_of_standing(request: Request) -> Iterator[_Change]:
    """Roles to have and not to have, and groups to leave; which ones to join no rule could tell."""
    subject, who = request.subject, printable(str(request.subject))

    def standing(**changed: Any) -> Request:
        return dataclasses.replace(request, subject=dataclasses.replace(subject, **changed))

    for role in SHIPPED_ROLES:
        if role not in subject.roles:
            command = _command(subject, "user", "role", _NAME, role)
            yield _Change(f"{who} had the role {role}", standing(roles=subject.roles | {role}), command)
    for role in sorted(subject.roles):
        command = _command(subject, "user", "role", _NAME, role, "--remove")
        words = f"{who} had not the role {printable(role)}"
        yield _Change(words, standing(roles=subject.roles - {role}), command)
    for group in sorted(subject.groups):
        command = _command(subject, "group", "member", group, _NAME, "--remove")
        words = f"{who} were not in the group {printable(group)}"
        yield _Change(words, standing(groups=subject.groups - {group}), command)


def _command(subject: Subject, *words: str) -> str:
    """The command with the name of a person who was added; empty for all others, whose standing comes from elsewhere.

    Nothing is put into one that a shell would take for more than a word.
    """
    kind, _, name = subject.id.partition(":")
    if subject.type != "User" or kind != "user":
        return ""
    whole = ["paddock", *(name if word == _NAME else word for word in words)]
    if subject.tenant != DEFAULT_TENANT:
        whole += ["--tenant", subject.tenant]
    return " ".join(whole) if all(shlex.quote(word) == word for word in whole) else ""


def _changes_of_target(rules: Rules, request: Request, target: CallableTarget) -> Iterator[_Change]:
    traits = target.traits

    def with_traits(**changed: Any) -> Request:
        other = dataclasses.replace(target, traits=dataclasses.replace(traits, **changed))
        return dataclasses.replace(request, target=other)

    known = frozenset(rules.vocabulary.tags)
    for tag in sorted(traits.tags & known):
        yield _Change(f"it had not the tag {tag}", with_traits(tags=traits.tags - {tag}))
    for tag in sorted(known - traits.tags):
        yield _Change(f"it had the tag {tag}", with_traits(tags=traits.tags | {tag}))
    if traits.signature in ("unsigned", "community-signed"):
        words = "somebody whom this host trusts had signed it"
        yield _Change(words, with_traits(signature="verified", tier="verified"))
