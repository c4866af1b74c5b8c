"""The dispatcher for everything a plugin requests from the host.

    find the method → granted? → allowed by policy? → may the call still act? → record → the service's handler

No handler is reachable otherwise. The request's call was resolved from its token before. A capability that was not
granted stays denied whatever the policy says, and no custom rule can extend what a kind of plugin may do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from paddock.capabilities.authorization import PolicyCheck
from paddock.capabilities.methods import REQUIRED_CAPABILITIES, CapabilityMethod, effective_method, find_method
from paddock.capabilities.recording import DenialRecorder, UsageRecorder
from paddock.capabilities.request import CapabilityRequest
from paddock.core.action import Action
from paddock.core.errors import Denied, HostError
from paddock.manifest.capability import covers
from paddock.manifest.effects import Effect
from paddock.manifest.permissions import PASSIVE_KINDS
from paddock.policy.decision import Allow, Ask, Decision, Deny
from paddock.policy.target import capability_target

ServiceHandler: TypeAlias = Callable[[CapabilityRequest, Mapping[str, Any]], Awaitable[Any]]


_UNFENCED_METHOD = "log.write"  # a fenced-off call may still log why it goes on


class FenceCheck(Protocol):
    """Knows which calls may still act."""

    async def require(self, request: CapabilityRequest) -> None:
        """Check that the request's call may still have its effect, or has none.

        Raises:
            Denied: `call.stale`, when it may not.
        """
        ...


class CapabilityDispatcher:
    """Dispatches plugins' capability requests to the services.

    Args:
        handlers: The handler of each method in `REQUIRED_CAPABILITIES`; exactly those.
        authorizer: Decides whether a plugin may use a method.
        fences: Checks whether the request's call may still act.
        usage: Records served requests.
        denials: Records denied requests.
    """

    def __init__(
        self,
        handlers: Mapping[str, ServiceHandler],
        authorizer: PolicyCheck,
        fences: FenceCheck,
        *,
        usage: UsageRecorder,
        denials: DenialRecorder,
    ) -> None:
        if handlers.keys() != REQUIRED_CAPABILITIES.keys():
            raise HostError(f"unserved or unlisted methods: {sorted(handlers.keys() ^ REQUIRED_CAPABILITIES.keys())}")
        self._handlers = handlers
        self._authorizer = authorizer
        self._fences = fences
        self._usage = usage
        self._denials = denials

    async def answer(self, request: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
        """Serve a plugin's request and return the result.

        Raises:
            NotFound: there is no such method.
            Denied: it was not granted, the policy forbids it, its call may not act any more, or the service refuses it.
                The denial is recorded.
            PaddockError: the service could not serve it, and says why.
        """
        capability_method = effective_method(request.manifest, find_method(request.manifest, method), params)
        granted = _is_granted(request, capability_method)
        decision = self._authorizer.decide(request, capability_method, granted=granted)
        try:
            if not granted or not isinstance(decision, Allow):
                raise _denied_error(request, capability_method, decision)
            if capability_method.name != _UNFENCED_METHOD:
                await self._fences.require(request)
            self._usage.record(request, capability_method.recorded_name)
            return await self._handlers[capability_method.name](request, params)
        except Denied as denied:
            self._denials.record(request, capability_method.name, denied, decision)
            raise


def _is_granted(request: CapabilityRequest, method: CapabilityMethod) -> bool:
    needed = method.needs
    return needed is None or any(covers(capability, needed) for capability in request.granted)


def _denied_error(request: CapabilityRequest, method: CapabilityMethod, decision: Decision) -> Denied:
    """Build the error for the plugin, without what a rule keeps confidential."""
    code = "storage_access_denied" if method.family == "storage" else "capability_denied"
    details = {"capability": str(method.needs or ""), "method": method.name}
    if isinstance(decision, Allow) or (not decision.policies and not _is_granted(request, method)):
        return Denied(
            f"{request.plugin} was not granted {method.needs}",
            code=code,
            hint=f"declare '{method.needs}' in its manifest, and grant it",
            action=request.grant_action(str(method.needs)),
            details=details,
        )
    reason, confidential = _denial_reason(decision)
    hint, action = ("", None) if confidential else _denial_remedy(request, method, decision)
    kind = request.manifest.kind
    subject = f"{request.plugin} is of kind {kind} and" if kind in PASSIVE_KINDS else request.plugin
    return Denied(
        f"{subject} may not ask for {method.name}: {reason}",
        code=code,
        hint=hint,
        action=action,
        details={
            **details,
            "policies": [] if confidential else list(decision.policies),
            "policy_version": decision.version,
        },
    )


def _denial_reason(decision: Ask | Deny) -> tuple[str, bool]:
    """Return the reason the plugin may see, and whether the rule keeps the real one confidential."""
    if isinstance(decision, Deny):
        return decision.caller_reason, bool(decision.public_reason)
    return decision.reason, False  # no person can be asked while a plugin waits for the response


def _denial_remedy(
    request: CapabilityRequest, method: CapabilityMethod, decision: Ask | Deny
) -> tuple[str, Action | None]:
    if method.writes and request.manifest.kind in PASSIVE_KINDS:
        return "only operators may write: make it an operator, or return what has to be stored", None
    declared = request.effects if request.effects is not None else request.process_effects
    if declared is not None and Effect.UNKNOWN not in declared:
        missing = sorted(capability_target(method.needs, writes=method.writes).effects - declared)
        if missing:
            declare = f"declare {', '.join(missing)} among the effects of what was called"
            return (declare if request.effects is not None else f"{declare}, or ask once no call is running"), None
    return "", Action.of("policy.show", rule=decision.policies[0] if decision.policies else "")
