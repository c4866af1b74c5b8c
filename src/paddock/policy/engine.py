"""The rules at work: a request goes in, a decision with its reason comes out. What goes wrong is a no.

Cedar passes over a rule that it cannot evaluate, also one that forbids; so any complaint of it denies. Decisions are
kept: a `Policy` is never changed, new rules make a new one, so what it keeps is for its own version alone, and by the
whole request, which holds all that a rule can see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from paddock.policy.annotations import ApprovalRequirement
from paddock.policy.cedar import CedarEvaluator, CedarResponse, cedar_policy_id
from paddock.policy.decision import APPROVAL_KINDS, REMEMBER_LIMITS, Allow, Ask, Decision, Deny
from paddock.policy.principal import entity_uid, principal_entity
from paddock.policy.request import PolicyRequest, cedar_context
from paddock.policy.rules import Rule, RuleSet
from paddock.policy.target import target_entity

MAX_CACHED_DECISIONS: Final = 8_192
NO_PERMIT_REASON: Final = "no rule allows it"


class Policy:
    """One version of the rules. Safe to ask from any thread.

    Args:
        rules: What holds.
        keep: How many decisions to keep; the ones not asked for longest go first.
    """

    def __init__(self, rules: RuleSet, *, keep: int = MAX_CACHED_DECISIONS) -> None:
        self.rules = rules
        self.version = rules.version
        self._cache_size = keep
        self._cache: dict[PolicyRequest, Decision] = {}
        self._tags = frozenset(rules.vocabulary.tags)
        self._evaluator = CedarEvaluator(rules.schema, rules.text)

    def decide(self, request: PolicyRequest) -> Decision:
        """What the rules say. Never raises: what cannot be decided is denied."""
        # Taken out and put back, so that the first is always the one not asked for longest.
        decision = self._cache.pop(request, None)
        if decision is None:
            decision = self.decide_uncached(request)
            if isinstance(decision, Deny) and decision.cause == "error":
                return decision
        self._cache[request] = decision
        if len(self._cache) > self._cache_size:
            # Another thread may be at it too; then the next decision makes room.
            with suppress(StopIteration, RuntimeError):
                self._cache.pop(next(iter(self._cache)), None)
        return decision

    def decide_uncached(self, request: PolicyRequest) -> Decision:
        """What the rules say, without looking at what is kept."""
        try:
            return self._evaluate(request)
        except Exception as error:  # the boundary to another language: whatever it is, it is no yes
            return self._deny_on_errors([f"{type(error).__name__}: {error}"])

    def rule_pins(self, decision: Decision) -> tuple[str, ...]:
        """The deciding rules, each as `id@hash of the rule`: what an approval is bound to."""
        return tuple(self.rules.by_id[name].pin for name in decision.policies)

    def _evaluate(self, request: PolicyRequest) -> Decision:
        entities = self._entities(request)
        if request.action != "call":
            answer = self._query_cedar(request, request.action, entities)
            if answer.errors:
                return self._deny_on_errors(answer.errors)
            return self._allow(answer) if answer.allowed else self._deny(answer)
        unattended = self._query_cedar(request, "callUnattended", entities)
        if unattended.errors:
            return self._deny_on_errors(unattended.errors)
        if unattended.allowed:
            return self._allow(unattended)
        attended = self._query_cedar(request, "call", entities)
        if attended.errors:
            return self._deny_on_errors(attended.errors)
        if not attended.allowed:
            return self._deny(attended)
        # Those that forbid it without a yes; or, where it is merely not allowed, those that allow it with one.
        return self._ask(self._rules_by_id(unattended.deciding or attended.deciding))

    def _entities(self, request: PolicyRequest) -> Any:
        return self._evaluator.entities(
            [principal_entity(request.principal, self._tags), target_entity(request.target, self._tags)]
        )

    def _query_cedar(self, request: PolicyRequest, action: str, entities: Any) -> CedarResponse:
        resource = entity_uid("Capability" if request.action == "use" else "Callable", request.target.name)
        principal = entity_uid(request.principal.type, request.principal.id)
        return self._evaluator.evaluate(principal, action, resource, cedar_context(request), entities)

    def _allow(self, answer: CedarResponse) -> Allow:
        deciding = self._rules_by_id(answer.deciding)
        return Allow(_rule_ids(deciding), _rule_texts(deciding), self.version)

    def _deny(self, answer: CedarResponse) -> Deny:
        deciding = self._rules_by_id(answer.deciding)
        if not deciding:
            return Deny((), NO_PERMIT_REASON, self.version, "nothing_allows")
        return Deny(_rule_ids(deciding), _rule_texts(deciding), self.version, public_reason=_public_texts(deciding))

    def _ask(self, deciding: Sequence[Rule]) -> Ask | Deny:
        wanted = [rule.wanted for rule in deciding]
        # A confirmation or a consent is answered by the person the call is for.
        answered = [one for one in wanted if one.kind in ("action", "gate")]
        approvers = _common_approvers(answered) if answered else ()
        if answered and not approvers:
            reason = "the rules that want a person asked have no approver in common: " + ", ".join(_rule_ids(deciding))
            return Deny(_rule_ids(deciding), reason, self.version, public_reason=_public_texts(deciding))
        four_eyes = {one.four_eyes for one in answered}
        return Ask(
            _rule_ids(deciding),
            _rule_texts(deciding),
            self.version,
            APPROVAL_KINDS[max(APPROVAL_KINDS.index(one.kind) for one in wanted)],
            approvers,
            True if True in four_eyes else None if None in four_eyes else False,
            max(one.quorum for one in wanted),
            REMEMBER_LIMITS[min(REMEMBER_LIMITS.index(one.remember) for one in wanted)],
            _public_texts(deciding),
        )

    def _deny_on_errors(self, errors: Sequence[str]) -> Deny:
        reason = f"the rules could not be evaluated: {self._with_rule_ids('; '.join(errors))[:500]}"
        return Deny((), reason, self.version, "error", "the rules could not be evaluated")

    def _rules_by_id(self, ids: Iterable[str]) -> list[Rule]:
        return [self.rules.by_id[name] for name in ids]

    def _with_rule_ids(self, said: str) -> str:
        """Cedar's words with our names of the rules: it counts them."""
        for index in range(len(self.rules.rules)):
            said = said.replace(f"`{cedar_policy_id(index)}`", f"`{self.rules.rules[index].id}`")
        return said


def _common_approvers(wanted: Sequence[ApprovalRequirement]) -> tuple[str, ...]:
    """Who may answer for all of them."""
    common = set(wanted[0].approvers)
    for one in wanted[1:]:
        common &= set(one.approvers)
    return tuple(sorted(common))


def _rule_ids(rules: Sequence[Rule]) -> tuple[str, ...]:
    return tuple(rule.id for rule in rules)


def _public_texts(rules: Sequence[Rule]) -> str:
    """What people are told instead of the texts; one rule that keeps its own from them is enough: the others would
    tell what it keeps."""
    return next((rule.public_text for rule in rules if rule.public_text), "")


def _rule_texts(rules: Sequence[Rule]) -> str:
    return " ".join(dict.fromkeys(rule.text for rule in rules))
