"""What the rules say to a plugin's request: who asks and in which call, and the rules that are in force now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from paddock.capabilities.asking import Asking
from paddock.capabilities.methods import Method
from paddock.manifest.effects import Effect
from paddock.policy.decision import Decision
from paddock.policy.engine import Policy
from paddock.policy.request import Request, to_use
from paddock.policy.rules import checked_rules, shipped_file
from paddock.policy.subject import Subject
from paddock.policy.target import capability_target
from paddock.policy.vocabulary import vocabulary

_MOST_KEPT = 10_000
# Effects that can be nothing but a request to the outside, or are one as often as not.
_OUTSIDE = (Effect.EXTERNAL_CALL, Effect.EXTERNAL_SEND, Effect.WEBHOOK_EMIT, Effect.FINAL_WRITE)

_Question: TypeAlias = tuple[Subject, str, bool, frozenset[str] | None, frozenset[str] | None]


class DecidesUse(Protocol):
    """Who decides about what plugins ask for."""

    def about(self, asking: Asking, method: Method, *, granted: bool) -> Decision:
        """What the rules say to this request. Asked thousands of times a second, so it must not wait for anything."""
        ...


class InForce(Protocol):
    """Where the rules that are in force are found."""

    @property
    def policy(self) -> Policy: ...


@dataclass(frozen=True, slots=True)
class UseByTheRules:
    """Asks the rules that are in force. What it asks them is kept: a plugin asks for the same again and again."""

    rules: InForce
    _kept: dict[_Question, Request] = field(default_factory=dict[_Question, Request])

    def about(self, asking: Asking, method: Method, *, granted: bool) -> Decision:
        question = (asking.subject, method.name, granted, asking.effects, asking.underway)
        request = self._kept.get(question)
        if request is None:
            effects = _sent(asking) if method.name == "http.send" else None
            target = capability_target(method.needs, writes=method.writes, effects=effects)
            request = to_use(
                asking.subject,
                target,
                method=method.name,
                granted=granted,
                call_effects=asking.effects,
                underway_effects=asking.underway,
            )
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[question] = request
        return self.rules.policy.decide(request)


def _sent(asking: Asking) -> Iterable[Effect] | None:
    """What a request to the outside is: whatever the call says that it does there, or a call of an outside service."""
    declared = asking.effects if asking.effects is not None else asking.underway
    return [effect for effect in _OUTSIDE if effect in (declared or ())] or None


@dataclass(frozen=True, slots=True)
class ShippedRules:
    """See `InForce`. The rules that every host has, for an author at work on a plugin: users will meet them too."""

    policy: Policy


def by_the_shipped_rules() -> UseByTheRules:
    """Decides as a host does on which nobody has written rules."""
    return UseByTheRules(ShippedRules(Policy(checked_rules([shipped_file()], vocabulary()))))
