"""Audit events of calls: request, decision and outcome. A call that only reads has one entry, at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from paddock.core.events.event import Event, event


@event("call.started")
class CallStarted(Event):
    """A call that changes something is about to reach its plugin; on disk before the first byte does.

    `stands_for` are the events of other documents that this one says as well. `owner` is the person whose key made it.
    """

    name: str
    method: str
    version: str
    digest: str
    effects: tuple[str, ...]
    request_id: str
    operator_id: str | None
    project_id: str | None
    owner: str | None
    payload_hash: str
    decision: str
    policies: tuple[str, ...]
    policy_version: str
    approval: str | None
    stands_for: tuple[str, ...] = ("plugin.method_called",)


@event("call.ended")
class CallEnded(Event):
    """What became of a call, whatever that was: an answer, a failure, a denial, or that a person is asked first.

    `success` is whether its plugin answered; `status` says more. `effects` are those that the rules took it to have.
    `metrics` is what the host counted. What the plugin wrote (`plugin_metrics`, `nondeterminism`, `model`) can be
    erased; where one of these is large, it is its `size` and `hash`. `proposed` is what an agent's answer was denied
    for: `decision` is about that then. `replay_of` is the call that was made before under the same key, whose answer
    this one got; nothing was done for it. `undisclosed` is what it used without saying so, of `network` and `model`:
    the same call may be answered otherwise. `artifacts` is what an operator says to have made, each with its `type`,
    `path` and `hash`; `verified` are those that the host keeps under that hash.
    """

    name: str
    method: str
    version: str
    digest: str
    effects: tuple[str, ...]
    request_id: str
    operator_id: str | None
    project_id: str | None
    session_id: str | None
    agent_path: str | None
    owner: str | None
    payload_hash: str | None
    result_hash: str | None
    status: str
    success: bool
    duration_ms: float
    metrics: Mapping[str, Any]
    plugin_metrics: Mapping[str, Any] | None
    events_hash: str | None
    error_code: str | None
    error_category: str | None
    error_message: str | None
    nondeterminism: Mapping[str, Any] | None
    model: str | None
    decision: str | None
    policies: tuple[str, ...]
    policy_version: str | None
    approval: str | None
    stands_for: tuple[str, ...]
    proposed: str | None = None
    replay_of: str | None = None
    undisclosed: tuple[str, ...] | None = None
    artifacts: tuple[Mapping[str, Any], ...] | None = None


REPORTED_BY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "plugin.method_called": (CallStarted.type, CallEnded.type),
        "plugin.method_returned": (CallEnded.type,),
    }
)
"""Events of other documents that are not recorded by themselves: the events whose `stands_for` names each of them."""


UNDISCLOSED_TEXT: Final[Mapping[str, str]] = MappingProxyType({"network": "the network", "model": "a model"})
"""What a call may use without declaring it, in words."""


def undisclosed_text(undisclosed: Iterable[str] | None) -> str:
    """The warning about a call that used something undeclared; empty where there is none."""
    used = " and ".join(UNDISCLOSED_TEXT.get(one, one) for one in undisclosed or ())
    return f"it used {used}, and did not say so: the same call may be answered otherwise" if used else ""


@event("effect.in_doubt")
class EffectInDoubt(Event):
    """Nobody knows whether a call had its effect: its host is gone, or its plugin gave no answer that tells."""

    name: str
    method: str
    reason: str
    recovery: str


@event("effect.in_progress")
class EffectInProgress(Event):
    """An operator is still at work on a call; it is asked again and again, until then at the longest."""

    name: str
    method: str
    until: str


@event("effect.resolved")
class EffectResolved(Event):
    """It is known now what became of an effect: `state` says whether it has happened, `resolution` who says so."""

    name: str
    method: str
    state: str
    resolution: str
    by: str | None
    result_hash: str | None
    comment: str | None = None
