"""The policy engine: turns a request into a decision with its reason. Any error is a denial.

Cedar skips a rule that it cannot evaluate, even one that forbids; so any error that it reports is a denial. Decisions
are cached: a `Policy` is immutable and new rules make a new one, so the cache belongs to one version; its key is the
whole request, which holds everything that a rule can see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

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
    """One version of the rules. Thread-safe.

    Args:
        rules: The rules.
        cache_size: How many decisions to cache; the least recently used are evicted first.
    """

    def __init__(self, rules: RuleSet, *, cache_size: int = MAX_CACHED_DECISIONS) -> None:
        self.rules = rules
        self.version = rules.version
        self._cache_size = cache_size
        self._cache: dict[PolicyRequest, Decision] = {}
        self._tags = frozenset(rules.vocabulary.tags)
        self._evaluator = CedarEvaluator(rules.schema, rules.text)

    def decide(self, request: PolicyRequest) -> Decision:
        """Decide a request. Never raises: what cannot be decided is denied."""
        # Removed and inserted again, so that the first is always the least recently used.
        decision = self._cache.pop(request, None)
        if decision is None:
            decision = self.decide_uncached(request)
            if isinstance(decision, Deny) and decision.cause == "error":
                return decision
        self._cache[request] = decision
        if len(self._cache) > self._cache_size:
            # Another thread may be evicting too; then the next decision makes room.
            with suppress(StopIteration, RuntimeError):
                self._cache.pop(next(iter(self._cache)), None)
        return decision

    def decide_uncached(self, request: PolicyRequest) -> Decision:
        """Decide a request without the cache."""
        try:
            return self._evaluate(request)
        except Exception as error:  # the boundary to Cedar's native code: any error is a denial
            return self._deny_on_errors([f"{type(error).__name__}: {error}"])

    def rule_pins(self, decision: Decision) -> tuple[str, ...]:
        """Return the deciding rules, each as `id@hash of the rule`: an approval is bound to these."""
        return tuple(self.rules.by_id[name].pin for name in decision.policies)

    def _evaluate(self, request: PolicyRequest) -> Decision:
        entities = self._entities(request)
        if request.action != "call":
            response = self._query_cedar(request, request.action, entities)
            if response.errors:
                return self._deny_on_errors(response.errors)
            return self._allow(response) if response.allowed else self._deny(response)
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
        # The rules that forbid it without an approval; or, if it is just not permitted, those that permit it with one.
        return self._ask(self._rules_by_id(unattended.deciding or attended.deciding))

    def _entities(self, request: PolicyRequest) -> Any:
        return self._evaluator.entities(
            [principal_entity(request.principal, self._tags), target_entity(request.target, self._tags)]
        )

    def _query_cedar(self, request: PolicyRequest, action: str, entities: Any) -> CedarResponse:
        resource = entity_uid("Capability" if request.action == "use" else "Callable", request.target.name)
        principal = entity_uid(request.principal.type, request.principal.id)
        return self._evaluator.evaluate(principal, action, resource, cedar_context(request), entities)

    def _allow(self, response: CedarResponse) -> Allow:
        deciding = self._rules_by_id(response.deciding)
        return Allow(_rule_ids(deciding), _rule_texts(deciding), self.version)

    def _deny(self, response: CedarResponse) -> Deny:
        deciding = self._rules_by_id(response.deciding)
        if not deciding:
            return Deny((), NO_PERMIT_REASON, self.version, "nothing_allows")
        return Deny(_rule_ids(deciding), _rule_texts(deciding), self.version, public_reason=_public_texts(deciding))

    def _ask(self, deciding: Sequence[Rule]) -> Ask | Deny:
        requirements = [rule.wanted for rule in deciding]
        # A confirmation or a consent is answered by the person the call is for, so it names no approvers.
        with_approvers = [requirement for requirement in requirements if requirement.kind in ("action", "gate")]
        approvers = _common_approvers(with_approvers) if with_approvers else ()
        if with_approvers and not approvers:
            reason = "the rules that want a person asked have no approver in common: " + ", ".join(_rule_ids(deciding))
            return Deny(_rule_ids(deciding), reason, self.version, public_reason=_public_texts(deciding))
        four_eyes = {requirement.four_eyes for requirement in with_approvers}
        kind = APPROVAL_KINDS[max(APPROVAL_KINDS.index(requirement.kind) for requirement in requirements)]
        remember = REMEMBER_LIMITS[min(REMEMBER_LIMITS.index(requirement.remember) for requirement in requirements)]
        return Ask(
            _rule_ids(deciding),
            _rule_texts(deciding),
            self.version,
            kind,
            approvers,
            True if True in four_eyes else None if None in four_eyes else False,
            max(requirement.quorum for requirement in requirements),
            remember if kind == "confirmation" else "never",
            _public_texts(deciding),
        )

    def _deny_on_errors(self, errors: Sequence[str]) -> Deny:
        reason = f"the rules could not be evaluated: {self._with_rule_ids('; '.join(errors))[:500]}"
        return Deny((), reason, self.version, "error", "the rules could not be evaluated")

    def _rules_by_id(self, ids: Iterable[str]) -> list[Rule]:
        return [self.rules.by_id[name] for name in ids]

    def _with_rule_ids(self, message: str) -> str:
        """Replace Cedar's rule numbers in a message by our rule ids."""
        for index in range(len(self.rules.rules)):
            message = message.replace(f"`{cedar_policy_id(index)}`", f"`{self.rules.rules[index].id}`")
        return message


def _common_approvers(requirements: Sequence[ApprovalRequirement]) -> tuple[str, ...]:
    """Return the approvers that all requirements have in common."""
    common = set(requirements[0].approvers)
    for requirement in requirements[1:]:
        common &= set(requirement.approvers)
    return tuple(sorted(common))


def _rule_ids(rules: Sequence[Rule]) -> tuple[str, ...]:
    return tuple(rule.id for rule in rules)


def _public_texts(rules: Sequence[Rule]) -> str:
    """Return the text for people if any rule withholds its own: one is enough, since the other texts would reveal what
    it withholds.
    """
    return next((rule.public_text for rule in rules if rule.public_text), "")


def _rule_texts(rules: Sequence[Rule]) -> str:
    return " ".join(dict.fromkeys(rule.text for rule in rules))


class PolicySource(Protocol):
    """Gives the policy that is in force."""

    @property
    def policy(self) -> Policy: ...
