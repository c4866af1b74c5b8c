"""A policy request: may this principal perform this action on this target, here and now? Pure.

Everything that a rule can see is in the request, so equal requests get equal decisions as long as the rules are the
same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from paddock.policy.principal import PolicyPrincipal, entity_reference
from paddock.policy.target import CallableTarget, CapabilityTarget, PolicyTarget

PolicyAction: TypeAlias = Literal["call", "propose", "use"]


class CallEnvironment(Struct, frozen=True):
    """The circumstances of a call."""

    background: bool = False
    """Nobody waits for it: its caller detached from it, a schedule or a feed makes it, the host makes it to recover an
    effect, or goes on with it after a restart."""
    dry_run: bool = False
    """Only what would happen is asked for."""
    project: str | None = None
    agent_path: str | None = None


class UseEnvironment(Struct, frozen=True):
    """The circumstances of a plugin's capability request."""

    method: str
    granted: bool
    """Whether a person granted the capability to the plugin."""
    call_effects: frozenset[str] | None = None
    """Declared effects of the call that it serves; None if the plugin acts on its own."""
    underway_effects: frozenset[str] | None = None
    """If it names no call: declared effects of all calls that the plugin works on; None if it works on none."""


class PolicyRequest(Struct, frozen=True):
    """A policy request. Build it with `build_call_request`, `build_propose_request` or `build_use_request`."""

    principal: PolicyPrincipal
    action: PolicyAction
    target: PolicyTarget
    environment: CallEnvironment | UseEnvironment | None = None


_DEFAULT_ENVIRONMENT = CallEnvironment()


def build_call_request(
    principal: PolicyPrincipal, target: CallableTarget, environment: CallEnvironment = _DEFAULT_ENVIRONMENT
) -> PolicyRequest:
    """Build the request of a principal to call a target."""
    return PolicyRequest(principal, "call", target, environment)


def build_propose_request(agent: PolicyPrincipal, target: CallableTarget) -> PolicyRequest:
    """Build the request of an agent to put a call into a plan."""
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
    """Build the request of a plugin to use a capability of the host.

    Args:
        plugin: The plugin; see `plugin_principal`.
        target: The capability; see `capability_target`.
        method: The method that it called.
        granted: Whether a person granted the capability.
        call_effects: Declared effects of the call that it serves; None if it serves none.
        underway_effects: If it names no call: the declared effects of all calls that it works on; None if it works
            on none.
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
    """Convert the circumstances to Cedar's context; unknown values are left out."""
    match request.environment:
        case None:
            return {}
        case CallEnvironment(background, dry_run, project, agent_path):
            values = {"background": background, "dry_run": dry_run, "project": project, "agent_path": agent_path}
            return {name: value for name, value in values.items() if value is not None}
        case UseEnvironment(method, granted, call_effects, underway_effects):
            context: dict[str, Any] = {"method": method, "granted": granted}
            for name, effects in (("call_effects", call_effects), ("underway_effects", underway_effects)):
                if effects is not None:
                    context[name] = [entity_reference("Effect", effect) for effect in sorted(effects)]
            return context
