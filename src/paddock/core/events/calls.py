"""Audit events of calls: request, decision and outcome. A call that only reads has one entry, at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from paddock.core.events.event import Event, event


@event("call.started")
class CallStarted(Event, frozen=True):
    """A call with an effect is about to be sent to its plugin. Stored before the first byte is sent.

    `stands_for` names the events of other documents that this entry covers. `owner` is the person whose key made the
    call. `background` is true if nobody waits for the call.
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
    background: bool | None = None


@event("call.ended")
class CallEnded(Event, frozen=True):
    """A call ended: with a result, a failure, a denial, or a request for approval.

    `success` says whether the plugin answered; `status` says more. `effects` are those that the policy assumed.
    `metrics` is what the host counted. Data that the plugin wrote (`plugin_metrics`, `nondeterminism`, `model`) can be
    erased; a large value is stored as its `size` and `hash`. `proposed` is the proposal in an agent's result that was
    denied; `decision` is about that proposal then. `replay_of` is the earlier call with the same idempotency key whose
    result this call got; nothing ran for it. `undisclosed` lists what it used without declaring it, of `network` and
    `model`: the same call may give another result. `artifacts` are those that an operator reports, each with its
    `type`, `path` and `hash`; `verified` are those that the host stores under that hash. `background` is true if nobody
    waits for the call.
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
    background: bool | None = None


@event("call.dry_run")
class CallDryRun(Event, frozen=True):
    """A caller requested the outcome of a hypothetical call. Nothing ran, and no approval was requested.

    `would` is the outcome: `run`, `wait_for_approval`, `be_denied` or `be_rejected`.
    """

    name: str
    method: str
    version: str
    digest: str
    request_id: str
    operator_id: str | None
    owner: str | None
    payload_hash: str
    decision: str
    policies: tuple[str, ...]
    policy_version: str
    would: str


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
class EffectInDoubt(Event, frozen=True):
    """The outcome of a call is unknown: its host stopped, or its plugin's response does not show whether it ran."""

    name: str
    method: str
    reason: str
    recovery: str


@event("effect.in_progress")
class EffectInProgress(Event, frozen=True):
    """An operator is still working on a call; it is polled until the time in `until`."""

    name: str
    method: str
    until: str


@event("effect.resolved")
class EffectResolved(Event, frozen=True):
    """The outcome of an effect became known: `state` says whether it happened, `resolution` who reported it."""

    name: str
    method: str
    state: str
    resolution: str
    by: str | None
    result_hash: str | None
    comment: str | None = None
