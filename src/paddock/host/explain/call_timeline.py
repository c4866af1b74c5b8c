"""The timeline of a call, reconstructed from its ledger entries: requested, answered, started, ended. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from paddock.core.events.calls import undisclosed_text
from paddock.host.explain import effect_text
from paddock.ledger.entry import LedgerEntry
from paddock.manifest.names import full_name
from paddock.policy.decision import DecisionWord

ERASED_NAME: Final = "an erased person"
_CALL_EVENTS: Final = ("call.started", "call.ended")
_STATUS_TEXT: Final = {
    "denied": "was denied",
    "refused": "was refused",
    "cancelled": "was cancelled",
    "timed_out": "took too long and was ended",
    "in_doubt": "ended in doubt",
}


class TimelineStep(Struct, frozen=True):
    """One event as text; `entry` is the ledger entry's id."""

    at: str
    words: str
    entry: str


class CallTimeline(Struct, frozen=True):
    """A call as the ledger knows it.

    Attributes:
        who: The principal; None if it was erased.
        owner: The owner of the API key or token it was made with, if any.
        operator: The operator who made it on the principal's behalf, if any.
        status: The final status: a status of `call.ended`; `started` if no end is recorded; for a call that waited
            for approval the state of the request; and `succeeded` or `failed` for one that was in doubt, once the
            outcome is known.
        resolution: How that outcome is known, as text.
        decision: The policy decision: `allow`, `deny` or `ask`; None if there was none.
        policies: Ids of the rules that decided.
        version: The plugin's version.
        proposed: The proposal of the agent that was called, if policy decided about that.
        undisclosed: Capabilities it used without disclosing them: see `gate/output.py`.
        background: Whether nobody waited for it when policy decided.
    """

    call: str
    request: str | None
    plugin: str
    callable: str
    version: str
    effects: tuple[str, ...]
    who: str | None
    operator: str | None
    project: str | None
    agent_path: str | None
    at: str
    status: str
    decision: DecisionWord | None
    policies: tuple[str, ...]
    policy_version: str | None
    approval: str | None
    started: bool
    error: Mapping[str, Any] | None
    steps: tuple[TimelineStep, ...]
    proposed: str | None = None
    undisclosed: tuple[str, ...] = ()
    resolution: str | None = None
    owner: str | None = None
    background: bool = False

    @property
    def name(self) -> str:
        """The full name of what was called."""
        return full_name(self.plugin, self.callable)

    @property
    def blocked_by_policy(self) -> bool:
        """Whether the policy decision kept it from starting, for now or for good."""
        return self.decision == "deny" or (self.decision == "ask" and not self.started)


def build_timeline(call: str, entries: Iterable[LedgerEntry]) -> CallTimeline | None:
    """Build the timeline of a call; None if the entries do not say what was called."""
    # Calls that only read are recorded asynchronously, so order by time and not by sequence number.
    ordered = sorted(entries, key=lambda entry: (entry.at, entry.seq))
    outcomes = [entry for entry in ordered if entry.type in _CALL_EVENTS]
    if not outcomes:
        return None
    first, last = outcomes[0].data, outcomes[-1].data
    resolved = next((entry.data for entry in reversed(ordered) if entry.type == "effect.resolved"), None)
    decision = next((entry.data for entry in reversed(outcomes) if entry.data["decision"]), last)
    return CallTimeline(
        call=call,
        request=outcomes[0].request,
        plugin=first["name"],
        callable=first["method"],
        version=last["version"],
        effects=tuple(last["effects"]),
        who=first.get("principal"),
        operator=first["operator_id"],
        project=first["project_id"],
        agent_path=next((entry.data["agent_path"] for entry in outcomes if entry.data.get("agent_path")), None),
        at=ordered[0].at,
        status=_final_status(outcomes[-1], ordered, resolved),
        decision=decision["decision"],
        policies=tuple(decision["policies"]),
        policy_version=decision["policy_version"] or None,
        approval=last["approval"],
        started=any(entry.type == "call.started" or entry.data["stands_for"] for entry in outcomes),
        error=_error_json(last),
        steps=tuple(_build_steps(ordered)),
        proposed=last.get("proposed"),
        undisclosed=tuple(last.get("undisclosed") or ()),
        resolution=None if resolved is None else _describe_resolved(resolved),
        owner=first.get("owner"),
        background=bool(decision.get("background")),
    )


def _final_status(last: LedgerEntry, entries: Sequence[LedgerEntry], resolved: Mapping[str, Any] | None) -> str:
    if resolved is not None:  # later entries of its host do not count
        return "succeeded" if resolved["state"] == "succeeded" else "failed"
    if last.type == "call.started":
        return "in_doubt" if any(entry.type == "effect.in_doubt" for entry in entries) else "started"
    status = str(last.data["status"])
    if status != "pending_approval":
        return status
    # A denied or expired request leaves no entry of its call, which never continued. An edited request replaces the
    # previous one, so the last one counts.
    states = {"": "pending"}
    latest = ""
    for entry in entries:
        if entry.type == "approval.requested":
            latest = entry.data["approval"]
            states[latest] = "pending"
        elif entry.type in ("approval.answered", "approval.ended"):
            states[entry.data["approval"]] = entry.data["state"]
    return "pending_approval" if states[latest] in ("pending", "approved") else states[latest]


def _error_json(ended: Mapping[str, Any]) -> dict[str, Any] | None:
    if not ended.get("error_code") or ended.get("status") == "pending_approval":
        return None
    return {
        "code": ended["error_code"],
        "category": ended["error_category"],
        "message": ended["error_message"],
    }


def _build_steps(entries: Iterable[LedgerEntry]) -> Iterable[TimelineStep]:
    for entry in entries:
        text = _DESCRIBERS.get(entry.type, _describe_other)(entry.data)
        if text:
            yield TimelineStep(entry.at, text, entry.id)


def _describe_requested(event: Mapping[str, Any]) -> str:
    deadline = str(event["expires_at"])[:19].replace("T", " ")
    return f"a person was asked ({event['kind']}, {event['approval']}), for an answer until {deadline} UTC"


def _describe_answered(event: Mapping[str, Any]) -> str:
    verb = "approved" if event["approved"] else "denied"
    comment = f": {event['comment']}" if event["comment"] else ""
    quorum_note = "; more approvals are needed" if event["approved"] and event["state"] == "pending" else ""
    standing = f", with the standing approval {event['standing']}" if event.get("standing") else ""
    return f"{_actor_text(event, 'answered_by')} {verb} it{standing}{comment}{quorum_note}"


def _actor_text(event: Mapping[str, Any], field: str) -> str:
    """Return who did it; if the operator did it on behalf of a principal, both."""
    who, operator = event[field] or ERASED_NAME, event.get("operator")
    return f"{operator}, as {who}," if operator else str(who)


def _describe_consumed(event: Mapping[str, Any]) -> str:
    return f"the approval of {' and '.join(event['approved_by'] or [ERASED_NAME])} was used"


def _describe_request_end(event: Mapping[str, Any]) -> str:
    reason = f": {event['ended_why']}" if event["ended_why"] else ""
    return f"the request {event['approval']} was {event['state']}{reason}"


def _describe_standing(event: Mapping[str, Any]) -> str:
    reach = "this tool" if event["method"] else "all of the plugin's tools"
    duration = "until the plugin is upgraded" if event["scope"] == "always" else "for the session"
    return f"{_actor_text(event, 'given_by')} made it a standing approval for {reach} {duration} ({event['standing']})"


def _describe_started(event: Mapping[str, Any]) -> str:
    approval = str(event["approval"] or "")
    return "it started" + (f" with the standing approval {approval}" if approval.startswith("sta_") else "")


def _describe_ended(event: Mapping[str, Any]) -> str:
    if event["status"] == "pending_approval":
        return ""  # the approval request's entry says more
    duration = f" after {event['duration_ms']:g} ms"
    if event["status"] == "succeeded":
        return "; ".join(filter(None, (f"it succeeded{duration}", undisclosed_text(event.get("undisclosed")))))
    text = _STATUS_TEXT.get(event["status"], str(event["status"]))
    reason = f": {event['error_message']}" if event["error_message"] else ""
    return f"it {text}{duration}{reason} ({event['error_code']})"


def _describe_resolved(event: Mapping[str, Any]) -> str:
    return effect_text.describe_resolution(event, ERASED_NAME)


def _describe_other(event: Mapping[str, Any]) -> str:
    return f"{event['type']} was recorded" + (f": {event['reason']}" if event.get("reason") else "")


_DESCRIBERS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "approval.requested": _describe_requested,
    "approval.answered": _describe_answered,
    "approval.consumed": _describe_consumed,
    "approval.ended": _describe_request_end,
    "approval.standing_given": _describe_standing,
    "call.started": _describe_started,
    "call.ended": _describe_ended,
    "effect.in_doubt": effect_text.describe_in_doubt,
    "effect.in_progress": effect_text.describe_in_progress,
    "effect.resolved": _describe_resolved,
}
