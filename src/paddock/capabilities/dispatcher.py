"""The one door back: whatever a plugin asks of the host comes through `Door.answer`.

    which method → granted? → do the rules allow it? → may the call still act? → record → the family's handler

No handler is reachable otherwise. Which call a request belongs to was settled before, from its token. What nobody
granted stays denied whatever the rules say; what each kind of plugin may do at all is a rule that nobody can replace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from paddock.capabilities.authorization import CapabilityAuthorizer
from paddock.capabilities.methods import REQUIRED_CAPABILITIES, CapabilityMethod, effective_method, find_method
from paddock.capabilities.recording import DenialRecorder, UsageRecorder
from paddock.capabilities.request import CapabilityRequest
from paddock.core.errors import Denied, HostError
from paddock.manifest.capability import covers
from paddock.manifest.effects import Effect
from paddock.manifest.permissions import PASSIVE_KINDS
from paddock.policy.decision import Allow, Ask, Decision, Deny
from paddock.policy.target import capability_target

ServiceHandler: TypeAlias = Callable[[CapabilityRequest, Mapping[str, Any]], Awaitable[Any]]


_UNFENCED_METHOD = "log.write"  # why a call that may not act any more goes on may stand in its plugin's log


class FenceCheck(Protocol):
    """Knows which calls may still act."""

    async def require(self, asking: CapabilityRequest) -> None:
        """Let through what is asked for in a call that may still have its effect, or that has none.

        Raises:
            Denied: `call.stale`, when it may not.
        """
        ...


class CapabilityDispatcher:
    """Answers plugins.

    Args:
        handlers: Who serves each method of `methods.NEEDS`; exactly those.
        decides: Says whether a plugin may ask for it.
        fences: Says whether the call may still act for which it asks.
        asked: Where what is served is recorded.
        denials: Where refusals are recorded.
    """

    def __init__(
        self,
        handlers: Mapping[str, ServiceHandler],
        decides: CapabilityAuthorizer,
        fences: FenceCheck,
        *,
        asked: UsageRecorder,
        denials: DenialRecorder,
    ) -> None:
        if handlers.keys() != REQUIRED_CAPABILITIES.keys():
            raise HostError(f"unserved or unlisted methods: {sorted(handlers.keys() ^ REQUIRED_CAPABILITIES.keys())}")
        self._handlers = handlers
        self._decides = decides
        self._fences = fences
        self._asked = asked
        self._denials = denials

    async def answer(self, asking: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a plugin's request.

        Raises:
            NotFound: there is no such method.
            Denied: it was not granted, the rules forbid it, its call may not act any more, or the family refuses it;
                recorded.
            PaddockError: the family could not serve it, and says why.
        """
        found = effective_method(find_method(asking.manifest, method), params)
        granted = _is_granted(asking, found)
        decision = self._decides.decide(asking, found, granted=granted)
        try:
            if not granted or not isinstance(decision, Allow):
                raise _denied_error(asking, found, decision)
            if found.name != _UNFENCED_METHOD:
                await self._fences.require(asking)
            self._asked.record(asking, found.name)
            return await self._handlers[found.name](asking, params)
        except Denied as denied:
            self._denials.record(asking, found.name, denied, decision)
            raise


def _is_granted(asking: CapabilityRequest, method: CapabilityMethod) -> bool:
    needed = method.needs
    return needed is None or any(covers(held, needed) for held in asking.granted)


def _denied_error(asking: CapabilityRequest, method: CapabilityMethod, decision: Decision) -> Denied:
    """What the plugin is told; what a rule keeps from people is not in it."""
    code = "storage_access_denied" if method.family == "storage" else "capability_denied"
    details = {"capability": str(method.needs or ""), "method": method.name}
    if isinstance(decision, Allow) or (not decision.policies and not _is_granted(asking, method)):
        return Denied(
            f"{asking.plugin} was not granted {method.needs}",
            code=code,
            hint=f"declare '{method.needs}' in its manifest, and grant it",
            details=details,
        )
    told, kept = _denial_reason(decision)
    kind = asking.manifest.kind
    who = f"{asking.plugin} is of kind {kind} and" if kind in PASSIVE_KINDS else asking.plugin
    return Denied(
        f"{who} may not ask for {method.name}: {told}",
        code=code,
        hint="" if kept else _denial_hint(asking, method, decision),
        details={
            **details,
            "policies": [] if kept else list(decision.policies),
            "policy_version": decision.version,
        },
    )


def _denial_reason(decision: Ask | Deny) -> tuple[str, bool]:
    """The words of the rules, and whether these keep something back."""
    if isinstance(decision, Deny):
        return decision.caller_reason, bool(decision.public_reason)
    return decision.reason, False  # nobody can be asked while a plugin waits for its answer


def _denial_hint(asking: CapabilityRequest, method: CapabilityMethod, decision: Ask | Deny) -> str:
    if method.writes and asking.manifest.kind in PASSIVE_KINDS:
        return "only operators act and keep anything: make it an operator, or give back what is to be kept"
    declared = asking.effects if asking.effects is not None else asking.process_effects
    if declared is not None and Effect.UNKNOWN not in declared:
        missing = sorted(capability_target(method.needs, writes=method.writes).effects - declared)
        if missing:
            declare = f"declare {', '.join(missing)} among the effects of what was called"
            return declare if asking.effects is not None else f"{declare}, or ask once no call is under way"
    return f"paddock policy show {decision.policies[0]}" if decision.policies else "paddock policy show"
