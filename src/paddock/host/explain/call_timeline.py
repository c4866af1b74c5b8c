"""What became of a call, told by its entries in the ledger: who asked, who answered, how it started and ended. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paddock.core.events.calls import undisclosed_text
from paddock.host.explain import effect_text
from paddock.ledger.entry import LedgerEntry
from paddock.manifest.names import full_name

ERASED_NAME: Final = "somebody who was erased"
_CALL_EVENTS: Final = ("call.started", "call.ended")
_STATUS_TEXT: Final = {
    "denied": "was denied",
    "refused": "was refused",
    "cancelled": "was cancelled",
    "timed_out": "took too long and was ended",
    "in_doubt": "ended in doubt",
}


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One thing that happened, in words; `entry` is where it is recorded."""

    at: str
    words: str
    entry: str


@dataclass(frozen=True, slots=True)
class CallTimeline:
    """A call as the ledger knows it.

    Attributes:
        who: Who made it; None where that was erased.
        owner: Whose key or token it was made with, where it was one.
        operator: Who made it in their name, where somebody did.
        status: What became of it: a status of `call.ended`; `started` where no end is recorded; of one that waited
            for a person what the request came to; and `succeeded` or `failed` of one that was in doubt, once it is
            known whether it has happened.
        resolution: How that is known, in words.
        decision: What the rules said: `allow`, `deny` or `ask`; None where they were not asked.
        policies: Ids of the rules that decided.
        version: Of the plugin.
        proposed: What the agent that was called proposed, where the rules were asked about that.
        undisclosed: What it used without saying so: see `gate/disclosure.py`.
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
    decision: str | None
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

    @property
    def name(self) -> str:
        """The full name of what was called."""
        return full_name(self.plugin, self.callable)

    @property
    def blocked_by_policy(self) -> bool:
        """Whether what the rules said kept it from starting, for now or for good."""
        return self.decision == "deny" or (self.decision == "ask" and not self.started)


def build_timeline(call: str, entries: Iterable[LedgerEntry]) -> CallTimeline | None:
    """The story of a call, or None where the entries do not tell what was called."""
    # A call that only reads is recorded in passing, so by its time and not by its place.
    ordered = sorted(entries, key=lambda entry: (entry.at, entry.seq))
    outcomes = [entry for entry in ordered if entry.type in _CALL_EVENTS]
    if not outcomes:
        return None
    first, last = outcomes[0].data, outcomes[-1].data
    resolved = next((entry.data for entry in reversed(ordered) if entry.type == "effect.resolved"), None)
    decided = next((entry.data for entry in reversed(outcomes) if entry.data["decision"]), last)
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
        decision=decided["decision"],
        policies=tuple(decided["policies"]),
        policy_version=decided["policy_version"] or None,
        approval=last["approval"],
        started=any(entry.type == "call.started" or entry.data["stands_for"] for entry in outcomes),
        error=_error_json(last),
        steps=tuple(_build_steps(ordered)),
        proposed=last.get("proposed"),
        undisclosed=tuple(last.get("undisclosed") or ()),
        resolution=None if resolved is None else _describe_resolved(resolved),
        owner=first.get("owner"),
    )


def _final_status(last: LedgerEntry, entries: Sequence[LedgerEntry], resolved: Mapping[str, Any] | None) -> str:
    if resolved is not None:  # whatever its host says later counts for nothing
        return "succeeded" if resolved["state"] == "succeeded" else "failed"
    if last.type == "call.started":
        return "in_doubt" if any(entry.type == "effect.in_doubt" for entry in entries) else "started"
    status = str(last.data["status"])
    if status != "pending_approval":
        return status
    # What is denied or runs out leaves no entry of its call: it never went on. An edited request takes the place of the
    # one before, so the last one counts.
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
        words = _DESCRIBERS.get(entry.type, _describe_other)(entry.data)
        if words:
            yield TimelineStep(entry.at, words, entry.id)


def _describe_requested(told: Mapping[str, Any]) -> str:
    until = str(told["expires_at"])[:19].replace("T", " ")
    return f"a person was asked ({told['kind']}, {told['approval']}), for an answer until {until} UTC"


def _describe_answered(told: Mapping[str, Any]) -> str:
    said = "yes" if told["approved"] else "no"
    comment = f": {told['comment']}" if told["comment"] else ""
    more = "; more people have to" if told["approved"] and told["state"] == "pending" else ""
    return f"{_actor_text(told, 'answered_by')} said {said}{comment}{more}"


def _actor_text(told: Mapping[str, Any], field: str) -> str:
    """Who did it; where the operator did it in somebody's name, both."""
    who, operator = told[field] or ERASED_NAME, told.get("operator")
    return f"{operator}, as {who}," if operator else str(who)


def _describe_consumed(told: Mapping[str, Any]) -> str:
    return f"the yes of {' and '.join(told['approved_by'] or [ERASED_NAME])} was used"


def _describe_request_end(told: Mapping[str, Any]) -> str:
    why = f": {told['ended_why']}" if told["ended_why"] else ""
    return f"the request {told['approval']} was {told['state']}{why}"


def _describe_standing(told: Mapping[str, Any]) -> str:
    reach = "this tool" if told["method"] else "all of the plugin's tools"
    lasts = "until it is revoked" if told["scope"] == "always" else "for the session"
    return f"{_actor_text(told, 'given_by')} made it a yes for {reach} {lasts} ({told['standing']})"


def _describe_started(told: Mapping[str, Any]) -> str:
    approval = str(told["approval"] or "")
    return "it started" + (f" with the standing approval {approval}" if approval.startswith("sta_") else "")


def _describe_ended(told: Mapping[str, Any]) -> str:
    if told["status"] == "pending_approval":
        return ""  # the request says more
    took = f" after {told['duration_ms']:g} ms"
    if told["status"] == "succeeded":
        return "; ".join(filter(None, (f"it succeeded{took}", undisclosed_text(told.get("undisclosed")))))
    words = _STATUS_TEXT.get(told["status"], str(told["status"]))
    why = f": {told['error_message']}" if told["error_message"] else ""
    return f"it {words}{took}{why} ({told['error_code']})"


def _describe_resolved(told: Mapping[str, Any]) -> str:
    return effect_text.describe_resolution(told, ERASED_NAME)


def _describe_other(told: Mapping[str, Any]) -> str:
    return f"{told['type']} was recorded" + (f": {told['reason']}" if told.get("reason") else "")


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
