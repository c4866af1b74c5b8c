"""One question to the rules: may this subject do that to this target, here and now? Pure.

Everything that a rule can see is in the request, so equal requests have equal answers for as long as the rules are the
same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from paddock.policy.principal import PolicyPrincipal, entity_reference
from paddock.policy.target import CallableTarget, CapabilityTarget, PolicyTarget

PolicyAction: TypeAlias = Literal["call", "propose", "use"]


@dataclass(frozen=True, slots=True)
class CallEnvironment:
    """What surrounds a call."""

    background: bool = False
    """Nobody waits for it: a schedule or another machine started it."""
    dry_run: bool = False
    project: str | None = None
    agent_path: str | None = None


@dataclass(frozen=True, slots=True)
class UseEnvironment:
    """What surrounds a plugin's request to the host."""

    method: str
    granted: bool
    """Whether a person granted the plugin what it takes."""
    call_effects: frozenset[str] | None = None
    """Declared effects of the call that it serves; None where it acts of its own accord."""
    underway_effects: frozenset[str] | None = None
    """Where it names no call: declared effects of all those that it works on; None where it works on none."""


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """The question. Build it with `to_call`, `to_propose` or `to_use`."""

    principal: PolicyPrincipal
    action: PolicyAction
    target: PolicyTarget
    environment: CallEnvironment | UseEnvironment | None = None


_DEFAULT_ENVIRONMENT = CallEnvironment()


def build_call_request(
    subject: PolicyPrincipal, target: CallableTarget, circumstances: CallEnvironment = _DEFAULT_ENVIRONMENT
) -> PolicyRequest:
    """May somebody call this?"""
    return PolicyRequest(subject, "call", target, circumstances)


def build_propose_request(agent: PolicyPrincipal, target: CallableTarget) -> PolicyRequest:
    """May an agent put this into a plan?"""
    return PolicyRequest(agent, "propose", target)


def build_use_request(
    plugin: PolicyPrincipal,
    target: CapabilityTarget,
    *,
    method: str,
    granted: bool,
    call_effects: Iterable[str] | None = None,
    underway_effects: Iterable[str] | None = None,
) -> PolicyRequest:
    """May a plugin ask the host for this?

    Args:
        plugin: Who asks; see `plugin_subject`.
        target: What for; see `capability_target`.
        method: What it called.
        granted: Whether a person granted what it takes.
        call_effects: Declared effects of the call that it serves; None where it serves none.
        underway_effects: Where it says of no call that it serves it: the declared effects of all those that it works
            on; None where it works on none.
    """
    return PolicyRequest(
        plugin,
        "use",
        target,
        UseEnvironment(method, granted, _declared_effects(call_effects), _declared_effects(underway_effects)),
    )


def _declared_effects(effects: Iterable[str] | None) -> frozenset[str] | None:
    return None if effects is None else frozenset(map(str, effects))


def cedar_context(request: PolicyRequest) -> dict[str, Any]:
    """The circumstances as Cedar takes them; what is unknown is left out."""
    match request.environment:
        case None:
            return {}
        case CallEnvironment(background, dry_run, project, agent_path):
            known = {"background": background, "dry_run": dry_run, "project": project, "agent_path": agent_path}
            return {name: value for name, value in known.items() if value is not None}
        case UseEnvironment(method, granted, call_effects, underway_effects):
            context: dict[str, Any] = {"method": method, "granted": granted}
            for name, effects in (("call_effects", call_effects), ("underway_effects", underway_effects)):
                if effects is not None:
                    context[name] = [entity_reference("Effect", effect) for effect in sorted(effects)]
            return context
