"""Explains a decision in plain words: who, what, which rules, and what would have changed it. Pure.

Remedies are found by trial: each aspect that could be different is changed by itself, and the rules decide again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action, ActionJson, ActionKind
from paddock.core.printable import printable
from paddock.policy.decision import Allow, Ask, Decision, DecisionWord, Deny
from paddock.policy.engine import Policy
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import PolicyRequest, UseEnvironment
from paddock.policy.rules import Rule, RuleJson, RuleSet
from paddock.policy.schema import SHIPPED_ROLES
from paddock.policy.target import CallableTarget

RemedyOutcome: TypeAlias = Literal["allowed", "asked"]

_VERBS: Final = {"call": "call", "propose": "propose", "use": "use"}
_APPROVAL_TEXT: Final = {
    "confirmation": "the person it is for confirms it",
    "consent": "the person it is for consents to it",
    "action": "an approver approves it",
    "gate": "an approver opens the gate",
}

_PERSON_NAME: Final = re.compile(r"[A-Za-z0-9._@+-]+")
"""What a person can be called; other ids are of principals that no operator added."""


class RemedyJson(TypedDict):
    """A change that would have changed the decision."""

    change: str
    outcome: RemedyOutcome
    action: NotRequired[ActionJson]


class DecisionJson(TypedDict):
    """The decision of the rules on a call."""

    who: str
    what: str
    decision: DecisionWord
    reason: str
    rules: list[RuleJson]
    would_change_it: list[RemedyJson]
    policy_version: str


class Remedy(Struct, frozen=True):
    """One change that would have changed the decision."""

    change: str
    outcome: RemedyOutcome
    action: Action | None = None
    """The operator's action that makes the change; None if no single one does."""

    def to_value(self) -> RemedyJson:
        """Serialize the remedy."""
        remedy: RemedyJson = {"change": self.change, "outcome": self.outcome}
        if self.action is not None:
            remedy["action"] = self.action.to_json()
        return remedy


class Explanation(Struct, frozen=True):
    """The explanation of a decision."""

    who: str
    what: str
    answer: DecisionWord
    because: str
    rules: tuple[Rule, ...]
    ways: tuple[Remedy, ...]
    version: str

    def to_value(self) -> DecisionJson:
        """Serialize the explanation."""
        return {
            "who": self.who,
            "what": self.what,
            "decision": self.answer,
            "reason": self.because,
            "rules": [rule.to_json() for rule in self.rules],
            "would_change_it": [remedy.to_value() for remedy in self.ways],
            "policy_version": self.version,
        }


def explain(
    policy: Policy,
    request: PolicyRequest,
    *,
    withhold: bool = False,
    described: bool = False,
) -> Explanation:
    """Explain the decision on a request.

    Args:
        policy: The rules.
        request: The request.
        withhold: Whether to leave out what a rule withholds from people.
        described: Whether the principal is partly made up, so that commands about it would be pointless.
    """
    decision = policy.decide(request)
    if withhold and isinstance(decision, Deny | Ask) and decision.public_reason:
        who, answer = printable(str(request.principal)), decision_word(decision)
        return Explanation(who, describe_action(request), answer, decision.public_reason, (), (), decision.version)
    remedies = find_remedies(policy, request, decision)
    if described:
        remedies = tuple(replace(remedy, action=None) for remedy in remedies)
    return Explanation(
        printable(str(request.principal)),
        describe_action(request),
        decision_word(decision),
        _reason_text(decision),
        deciding_rules(policy.rules, decision.policies),
        remedies,
        decision.version,
    )


def decision_word(decision: Decision) -> Literal["allow", "deny", "ask"]:
    """Return the word for a decision."""
    match decision:
        case Allow():
            return "allow"
        case Deny():
            return "deny"
        case Ask():
            return "ask"


def describe_action(request: PolicyRequest) -> str:
    """Describe the requested action as text."""
    return f"{_VERBS[request.action]} {printable(str(request.target))}"


def deciding_rules(rules: RuleSet, ids: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules of a decision, as far as this version contains them."""
    return tuple(rules.by_id[name] for name in ids if name in rules.by_id)


def find_remedies(policy: Policy, request: PolicyRequest, decision: Decision) -> tuple[Remedy, ...]:
    """Find every single change after which the rules would permit more than they did; those that allow come first."""
    if isinstance(decision, Allow):
        return ()
    remedies = [Remedy(_APPROVAL_TEXT[decision.kind], "allowed")] if isinstance(decision, Ask) else []
    for variation in _variations(policy.rules, request):
        match policy.decide_uncached(variation.request):
            case Allow():
                remedies.append(Remedy(variation.words, "allowed", variation.action))
            case Ask() if isinstance(decision, Deny):
                remedies.append(Remedy(variation.words, "asked", variation.action))
            case _:
                pass
    return tuple(sorted(remedies, key=lambda remedy: remedy.outcome != "allowed"))


def _reason_text(decision: Decision) -> str:
    if isinstance(decision, Deny) and decision.cause == "nothing_allows":
        return "No rule allows it, and what no rule allows does not happen."
    return decision.reason


class _Variation(NamedTuple):
    """A variation of a request: described in words, with the changed request, and the action that makes it so."""

    words: str
    request: PolicyRequest
    action: Action | None = None


def _variations(rules: RuleSet, request: PolicyRequest) -> Iterator[_Variation]:
    """Yield everything that could be different, one at a time. Effects are facts, so they are never varied."""
    principal, target = request.principal, request.target
    who = printable(str(principal))
    yield from _principal_variations(request)
    if isinstance(request.environment, UseEnvironment):
        if not request.environment.granted:
            granted = replace(request.environment, granted=True)
            yield _Variation(f"{target} were granted to {who}", replace(request, environment=granted))
        return
    if not isinstance(target, CallableTarget):
        return
    if target.name not in principal.consents:
        consenting = replace(principal, consents=principal.consents | {target.name})
        text = f"{who} had enabled it and consented to it"
        yield _Variation(text, replace(request, principal=consenting))
    if principal.type == "Agent" and target.name not in principal.may_call:
        listed = replace(principal, may_call=principal.may_call | {target.name})
        yield _Variation(f"it were on the allowlist of {who}", replace(request, principal=listed))
    yield from _target_variations(rules, request, target)


def _principal_variations(request: PolicyRequest) -> Iterator[_Variation]:
    """Vary roles to add and remove, and groups to leave; rules do not tell which groups could be joined."""
    principal, who = request.principal, printable(str(request.principal))

    def with_principal(**changes: Any) -> PolicyRequest:
        return replace(request, principal=replace(principal, **changes))

    for role in SHIPPED_ROLES:
        if role not in principal.roles:
            action = _person_action(principal, "user.role.add", role=role)
            yield _Variation(f"{who} had the role {role}", with_principal(roles=principal.roles | {role}), action)
    for role in sorted(principal.roles):
        action = _person_action(principal, "user.role.remove", role=role)
        text = f"{who} did not have the role {printable(role)}"
        yield _Variation(text, with_principal(roles=principal.roles - {role}), action)
    for group in sorted(principal.groups):
        action = _person_action(principal, "group.member.remove", group=group)
        text = f"{who} were not in the group {printable(group)}"
        yield _Variation(text, with_principal(groups=principal.groups - {group}), action)


def _person_action(principal: PolicyPrincipal, kind: ActionKind, **arguments: str) -> Action | None:
    """Build an action about a registered person; None for all others, whose roles come from elsewhere."""
    id_kind, _, name = principal.id.partition(":")
    if principal.type != "User" or id_kind != "user" or _PERSON_NAME.fullmatch(name) is None:
        return None
    return Action.of(kind, user=name, tenant=principal.tenant, **arguments)


def _target_variations(rules: RuleSet, request: PolicyRequest, target: CallableTarget) -> Iterator[_Variation]:
    traits = target.traits

    def with_traits(**changes: Any) -> PolicyRequest:
        varied = replace(target, traits=replace(traits, **changes))
        return replace(request, target=varied)

    known_tags = frozenset(rules.vocabulary.tags)
    for tag in sorted(traits.tags & known_tags):
        yield _Variation(f"it had not the tag {tag}", with_traits(tags=traits.tags - {tag}))
    for tag in sorted(known_tags - traits.tags):
        yield _Variation(f"it had the tag {tag}", with_traits(tags=traits.tags | {tag}))
    if traits.signature in ("unsigned", "community-signed"):
        text = "a trusted key had signed it"
        yield _Variation(text, with_traits(signature="verified", tier="verified"))
