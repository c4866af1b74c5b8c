"""The rules at work: a request goes in, a decision with its reason comes out. What goes wrong is a no.

Cedar passes over a rule that it cannot evaluate, also one that forbids; so any complaint of it denies. Decisions are
kept: a `Policy` is never changed, new rules make a new one, so what it keeps is for its own version alone, and by the
whole request, which holds all that a rule can see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from paddock.policy.annotations import Wanted
from paddock.policy.cedar import Answer, Evaluator, numbered
from paddock.policy.decision import APPROVAL_KINDS, REMEMBERED, Allow, Ask, Decision, Deny
from paddock.policy.request import Request, context_of
from paddock.policy.rules import Rule, Rules
from paddock.policy.subject import subject_entity, uid
from paddock.policy.target import target_entity

KEPT: Final = 8_192
NOTHING_ALLOWS: Final = "no rule allows it"


class Policy:
    """One version of the rules. Safe to ask from any thread.

    Args:
        rules: What holds.
        keep: How many decisions to keep; the ones not asked for longest go first.
    """

    def __init__(self, rules: Rules, *, keep: int = KEPT) -> None:
        self.rules = rules
        self.version = rules.version
        self._keep = keep
        self._kept: dict[Request, Decision] = {}
        self._tags = frozenset(rules.vocabulary.tags)
        self._evaluator = Evaluator(rules.schema, rules.text)

    def decide(self, request: Request) -> Decision:
        """What the rules say. Never raises: what cannot be decided is denied."""
        # Taken out and put back, so that the first is always the one not asked for longest.
        decision = self._kept.pop(request, None)
        if decision is None:
            decision = self.decide_anew(request)
            if isinstance(decision, Deny) and decision.cause == "error":
                return decision
        self._kept[request] = decision
        if len(self._kept) > self._keep:
            # Another thread may be at it too; then the next decision makes room.
            with suppress(StopIteration, RuntimeError):
                self._kept.pop(next(iter(self._kept)), None)
        return decision

    def decide_anew(self, request: Request) -> Decision:
        """What the rules say, without looking at what is kept."""
        try:
            return self._decided(request)
        except Exception as error:  # the boundary to another language: whatever it is, it is no yes
            return self._broken([f"{type(error).__name__}: {error}"])

    def pins(self, decision: Decision) -> tuple[str, ...]:
        """The deciding rules, each as `id@hash of the rule`: what an approval is bound to."""
        return tuple(self.rules.by_id[name].pin for name in decision.policies)

    def _decided(self, request: Request) -> Decision:
        entities = self._entities(request)
        if request.action != "call":
            answer = self._asked(request, request.action, entities)
            if answer.errors:
                return self._broken(answer.errors)
            return self._allow(answer) if answer.allowed else self._deny(answer)
        unattended = self._asked(request, "callUnattended", entities)
        if unattended.errors:
            return self._broken(unattended.errors)
        if unattended.allowed:
            return self._allow(unattended)
        attended = self._asked(request, "call", entities)
        if attended.errors:
            return self._broken(attended.errors)
        if not attended.allowed:
            return self._deny(attended)
        # Those that forbid it without a yes; or, where it is merely not allowed, those that allow it with one.
        return self._ask(self._named(unattended.deciding or attended.deciding))

    def _entities(self, request: Request) -> Any:
        return self._evaluator.entities(
            [subject_entity(request.subject, self._tags), target_entity(request.target, self._tags)]
        )

    def _asked(self, request: Request, action: str, entities: Any) -> Answer:
        resource = uid("Capability" if request.action == "use" else "Callable", request.target.name)
        principal = uid(request.subject.type, request.subject.id)
        return self._evaluator.ask(principal, action, resource, context_of(request), entities)

    def _allow(self, answer: Answer) -> Allow:
        deciding = self._named(answer.deciding)
        return Allow(_ids(deciding), _texts(deciding), self.version)

    def _deny(self, answer: Answer) -> Deny:
        deciding = self._named(answer.deciding)
        if not deciding:
            return Deny((), NOTHING_ALLOWS, self.version, "nothing_allows")
        return Deny(_ids(deciding), _texts(deciding), self.version, public_reason=_public(deciding))

    def _ask(self, deciding: Sequence[Rule]) -> Ask | Deny:
        wanted = [rule.wanted for rule in deciding]
        # A confirmation or a consent is answered by the person the call is for.
        answered = [one for one in wanted if one.kind in ("action", "gate")]
        approvers = _approvers(answered) if answered else ()
        if answered and not approvers:
            reason = "the rules that want a person asked have no approver in common: " + ", ".join(_ids(deciding))
            return Deny(_ids(deciding), reason, self.version, public_reason=_public(deciding))
        four_eyes = {one.four_eyes for one in answered}
        return Ask(
            _ids(deciding),
            _texts(deciding),
            self.version,
            APPROVAL_KINDS[max(APPROVAL_KINDS.index(one.kind) for one in wanted)],
            approvers,
            True if True in four_eyes else None if None in four_eyes else False,
            max(one.quorum for one in wanted),
            REMEMBERED[min(REMEMBERED.index(one.remember) for one in wanted)],
            _public(deciding),
        )

    def _broken(self, errors: Sequence[str]) -> Deny:
        reason = f"the rules could not be evaluated: {self._in_our_words('; '.join(errors))[:500]}"
        return Deny((), reason, self.version, "error", "the rules could not be evaluated")

    def _named(self, ids: Iterable[str]) -> list[Rule]:
        return [self.rules.by_id[name] for name in ids]

    def _in_our_words(self, said: str) -> str:
        """Cedar's words with our names of the rules: it counts them."""
        for index in range(len(self.rules.rules)):
            said = said.replace(f"`{numbered(index)}`", f"`{self.rules.rules[index].id}`")
        return said


def _approvers(wanted: Sequence[Wanted]) -> tuple[str, ...]:
    """Who may answer for all of them."""
    common = set(wanted[0].approvers)
    for one in wanted[1:]:
        common &= set(one.approvers)
    return tuple(sorted(common))


def _ids(rules: Sequence[Rule]) -> tuple[str, ...]:
    return tuple(rule.id for rule in rules)


def _public(rules: Sequence[Rule]) -> str:
    """What people are told instead of the texts; one rule that keeps its own from them is enough: the others would
    tell what it keeps."""
    return next((rule.public_text for rule in rules if rule.public_text), "")


def _texts(rules: Sequence[Rule]) -> str:
    return " ".join(dict.fromkeys(rule.text for rule in rules))
