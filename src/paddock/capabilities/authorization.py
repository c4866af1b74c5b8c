"""Policy decisions about plugins' capability requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct, field

from paddock.capabilities.methods import CapabilityMethod
from paddock.capabilities.request import CapabilityRequest
from paddock.manifest.effects import Effect
from paddock.policy.decision import Decision
from paddock.policy.engine import Policy, PolicySource
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import PolicyRequest, build_use_request
from paddock.policy.rules import checked_rules, shipped_rule_file
from paddock.policy.schema import build_vocabulary
from paddock.policy.target import capability_target

_MAX_CACHED_REQUESTS = 10_000
# Effects that always, or about as often as not, mean an outbound request.
_EXTERNAL_EFFECTS = (Effect.EXTERNAL_CALL, Effect.EXTERNAL_SEND, Effect.WEBHOOK_EMIT, Effect.FINAL_WRITE)

_RequestKey: TypeAlias = tuple[PolicyPrincipal, str, bool, bool, frozenset[str] | None, frozenset[str] | None]


class PolicyCheck(Struct, frozen=True):
    """Authorizes capability requests with the policy in force.

    Caches the built policy requests, because plugins repeat the same requests.
    """

    rules: PolicySource
    _cache: dict[_RequestKey, PolicyRequest] = field(default_factory=dict[_RequestKey, PolicyRequest])

    def decide(self, request: CapabilityRequest, method: CapabilityMethod, *, granted: bool) -> Decision:
        """Return the policy decision for this request.

        Called thousands of times a second, so it must not wait for anything.
        """
        cache_key = (request.principal, method.name, method.defines, granted, request.effects, request.process_effects)
        policy_request = self._cache.get(cache_key)
        if policy_request is None:
            effects = _external_effects(request) if method.name == "http.send" else None
            target = capability_target(method.needs, writes=method.writes, effects=effects)
            policy_request = build_use_request(
                request.principal,
                target,
                method=method.name,
                granted=granted,
                call_effects=request.effects,
                underway_effects=request.process_effects,
            )
            if len(self._cache) >= _MAX_CACHED_REQUESTS:
                self._cache.clear()
            self._cache[cache_key] = policy_request
        return self.rules.policy.decide(policy_request)


def _external_effects(request: CapabilityRequest) -> Iterable[Effect] | None:
    """Return the effects of an outbound HTTP request.

    These are the call's declared external effects. None stands for the default, an external call.
    """
    declared = request.effects if request.effects is not None else request.process_effects
    return [effect for effect in _EXTERNAL_EFFECTS if effect in (declared or ())] or None


class ShippedPolicy(Struct, frozen=True):
    """A `PolicySource` with only the rules that ship with every host.

    Used while a plugin is being developed: its users will meet the same rules.
    """

    policy: Policy


def shipped_policy_check() -> PolicyCheck:
    """Build the check of a host without custom rules."""
    return PolicyCheck(ShippedPolicy(Policy(checked_rules([shipped_rule_file()], build_vocabulary()))))
