"""The one door back: whatever a plugin asks of the host comes through `Door.answer`.

    which method → granted? → do the rules allow it? → may the call still act? → record → the family's handler

No handler is reachable otherwise. Which call a request belongs to was settled before, from its token. What nobody
granted stays denied whatever the rules say; what each kind of plugin may do at all is a rule that nobody can replace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from paddock.capabilities.asked import Asked
from paddock.capabilities.asking import Asking
from paddock.capabilities.deciding import DecidesUse
from paddock.capabilities.denials import Denials
from paddock.capabilities.methods import NEEDS, Method, meant, method_named
from paddock.core.errors import Denied, HostError
from paddock.manifest.capability import covers
from paddock.manifest.effects import Effect
from paddock.manifest.kind_boundary import PASSIVE
from paddock.policy.decision import Allow, Ask, Decision, Deny
from paddock.policy.target import capability_target

Handler: TypeAlias = Callable[[Asking, Mapping[str, Any]], Awaitable[Any]]


_HARMLESS = "log.write"  # why a call that may not act any more goes on may stand in its plugin's log


class Fences(Protocol):
    """Knows which calls may still act."""

    async def require(self, asking: Asking) -> None:
        """Let through what is asked for in a call that may still have its effect, or that has none.

        Raises:
            Denied: `call.stale`, when it may not.
        """
        ...


class Door:
    """Answers plugins.

    Args:
        handlers: Who serves each method of `methods.NEEDS`; exactly those.
        decides: Says whether a plugin may ask for it.
        fences: Says whether the call may still act for which it asks.
        asked: Where what is served is recorded.
        denials: Where refusals are recorded.
    """

    def __init__(
        self, handlers: Mapping[str, Handler], decides: DecidesUse, fences: Fences, *, asked: Asked, denials: Denials
    ) -> None:
        if handlers.keys() != NEEDS.keys():
            raise HostError(f"unserved or unlisted methods: {sorted(handlers.keys() ^ NEEDS.keys())}")
        self._handlers = handlers
        self._decides = decides
        self._fences = fences
        self._asked = asked
        self._denials = denials

    async def answer(self, asking: Asking, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a plugin's request.

        Raises:
            NotFound: there is no such method.
            Denied: it was not granted, the rules forbid it, its call may not act any more, or the family refuses it;
                recorded.
            PaddockError: the family could not serve it, and says why.
        """
        found = meant(method_named(asking.manifest, method), params)
        granted = _granted(asking, found)
        decision = self._decides.about(asking, found, granted=granted)
        try:
            if not granted or not isinstance(decision, Allow):
                raise _refusal(asking, found, decision)
            if found.name != _HARMLESS:
                await self._fences.require(asking)
            self._asked.note(asking, found.name)
            return await self._handlers[found.name](asking, params)
        except Denied as denied:
            self._denials.record(asking, found.name, denied, decision)
            raise


def _granted(asking: Asking, method: Method) -> bool:
    needed = method.needs
    return needed is None or any(covers(held, needed) for held in asking.granted)


def _refusal(asking: Asking, method: Method, decision: Decision) -> Denied:
    """What the plugin is told; what a rule keeps from people is not in it."""
    code = "storage_access_denied" if method.family == "storage" else "capability_denied"
    details = {"capability": str(method.needs or ""), "method": method.name}
    if isinstance(decision, Allow) or (not decision.policies and not _granted(asking, method)):
        return Denied(
            f"{asking.plugin} was not granted {method.needs}",
            code=code,
            hint=f"declare '{method.needs}' in its manifest, and grant it",
            details=details,
        )
    told, kept = _told(decision)
    kind = asking.manifest.kind
    who = f"{asking.plugin} is of kind {kind} and" if kind in PASSIVE else asking.plugin
    return Denied(
        f"{who} may not ask for {method.name}: {told}",
        code=code,
        hint="" if kept else _way_out(asking, method, decision),
        details={
            **details,
            "policies": [] if kept else list(decision.policies),
            "policy_version": decision.version,
        },
    )


def _told(decision: Ask | Deny) -> tuple[str, bool]:
    """The words of the rules, and whether these keep something back."""
    if isinstance(decision, Deny):
        return decision.told, bool(decision.public_reason)
    return decision.reason, False  # nobody can be asked while a plugin waits for its answer


def _way_out(asking: Asking, method: Method, decision: Ask | Deny) -> str:
    if method.writes and asking.manifest.kind in PASSIVE:
        return "only operators act and keep anything: make it an operator, or give back what is to be kept"
    declared = asking.effects if asking.effects is not None else asking.underway
    if declared is not None and Effect.UNKNOWN not in declared:
        missing = sorted(capability_target(method.needs, writes=method.writes).effects - declared)
        if missing:
            declare = f"declare {', '.join(missing)} among the effects of what was called"
            return declare if asking.effects is not None else f"{declare}, or ask once no call is under way"
    return f"paddock policy show {decision.policies[0]}" if decision.policies else "paddock policy show"
