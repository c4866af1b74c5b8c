"""What the rules say to a plugin's request: who asks and in which call, and the rules that are in force now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from paddock.capabilities.methods import CapabilityMethod
from paddock.capabilities.request import CapabilityRequest
from paddock.manifest.effects import Effect
from paddock.policy.decision import Decision
from paddock.policy.engine import Policy
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import PolicyRequest, build_use_request
from paddock.policy.rules import checked_rules, shipped_rule_file
from paddock.policy.schema import build_vocabulary
from paddock.policy.target import capability_target

_MAX_CACHED_REQUESTS = 10_000
# Effects that can be nothing but a request to the outside, or are one as often as not.
_EXTERNAL_EFFECTS = (Effect.EXTERNAL_CALL, Effect.EXTERNAL_SEND, Effect.WEBHOOK_EMIT, Effect.FINAL_WRITE)

_RequestKey: TypeAlias = tuple[PolicyPrincipal, str, bool, frozenset[str] | None, frozenset[str] | None]


class CapabilityAuthorizer(Protocol):
    """Who decides about what plugins ask for."""

    def decide(self, asking: CapabilityRequest, method: CapabilityMethod, *, granted: bool) -> Decision:
        """What the rules say to this request. Asked thousands of times a second, so it must not wait for anything."""
        ...


class PolicyProvider(Protocol):
    """Where the rules that are in force are found."""

    @property
    def policy(self) -> Policy: ...


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """Asks the rules that are in force. What it asks them is kept: a plugin asks for the same again and again."""

    rules: PolicyProvider
    _cache: dict[_RequestKey, PolicyRequest] = field(default_factory=dict[_RequestKey, PolicyRequest])

    def decide(self, asking: CapabilityRequest, method: CapabilityMethod, *, granted: bool) -> Decision:
        question = (asking.principal, method.name, granted, asking.effects, asking.process_effects)
        request = self._cache.get(question)
        if request is None:
            effects = _external_effects(asking) if method.name == "http.send" else None
            target = capability_target(method.needs, writes=method.writes, effects=effects)
            request = build_use_request(
                asking.principal,
                target,
                method=method.name,
                granted=granted,
                call_effects=asking.effects,
                underway_effects=asking.process_effects,
            )
            if len(self._cache) >= _MAX_CACHED_REQUESTS:
                self._cache.clear()
            self._cache[question] = request
        return self.rules.policy.decide(request)


def _external_effects(asking: CapabilityRequest) -> Iterable[Effect] | None:
    """What a request to the outside is: whatever the call says that it does there, or a call of an outside service."""
    declared = asking.effects if asking.effects is not None else asking.process_effects
    return [effect for effect in _EXTERNAL_EFFECTS if effect in (declared or ())] or None


@dataclass(frozen=True, slots=True)
class ShippedPolicy:
    """See `InForce`. The rules that every host has, for an author at work on a plugin: users will meet them too."""

    policy: Policy


def shipped_policy_check() -> PolicyCheck:
    """Decides as a host does on which nobody has written rules."""
    return PolicyCheck(ShippedPolicy(Policy(checked_rules([shipped_rule_file()], build_vocabulary()))))
