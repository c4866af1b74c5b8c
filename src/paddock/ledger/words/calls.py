"""Words for calls, for what waits for a person, and for effects that nobody was sure of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.ledger.words.phrase import Told, Words

_BECAME: Final = {
    "succeeded": "it worked",
    "failed": "it failed",
    "denied": "the rules did not allow it",
    "refused": "it was refused",
    "timed_out": "it took too long and was stopped",
    "cancelled": "it was cancelled",
    "in_doubt": "nobody knows whether it happened",
    "pending_approval": "a person is asked first",
}
_RECOVERY: Final = {
    "none": "a person has to check",
    "atomic": "the plugin's own records will tell",
    "native_key": "it will be tried again under the same key",
    "probe": "the plugin will be asked to check",
}
_FOUND_OUT: Final = {
    "atomic": "the plugin's own records say",
    "native_key": "trying again under the same key showed",
    "probe": "the plugin checked",
}


def _ended(told: Told) -> str:
    status = str(told.said.get("status") or "")
    became = _BECAME.get(status, status.replace("_", " ") or "it ended")
    words = f"{told.who} called {told.what}: {became}"
    if told.said.get("replay_of"):
        return f"{words}; it got the answer of an earlier call with the same key"
    if status == "pending_approval":
        return words
    if status == "succeeded":
        return f"{words} in {told['duration_ms~took']}"
    return words + (told.when("error_message", " ({})") or told.when("error_code", " ({})"))


def _answered(told: Told) -> str:
    said = "approved" if told.said.get("approved") else "denied"
    more = "; more people have to approve it" if said == "approved" and told.said.get("state") == "pending" else ""
    return f"{_through(told, 'answered_by')} {said} {told.what}{told.when('comment', ': “{}”')}{more}"


def _through(told: Told, field: str) -> str:
    """Who answered; where the operator passed it on, both."""
    return told.when("operator", "{}, as ") + told[field]


def _request_ended(told: Told) -> str:
    became = {
        "expired": "nobody answered in time",
        "withdrawn": "it was withdrawn",
        "voided": "what it was about has changed",
    }.get(str(told.said.get("state")), f"it is {told['state']}")
    return f"The request to call {told.what} ended: {became}"


def _standing(told: Told) -> str:
    reach = told.what if told.said.get("method") else f"every tool of {told['name']}"
    lasts = "until it is revoked" if told.said.get("scope") == "always" else "for one session"
    return f"{_through(told, 'given_by')} approved {reach} for {told['holder']}, {lasts}"


def _revoked(told: Told) -> str:
    reach = told.what if told.said.get("method") else f"every tool of {told['name']}"
    return f"{_through(told, 'revoked_by')} took back the standing approval for {reach}"


def _in_doubt(told: Told) -> str:
    way = _RECOVERY.get(str(told.said.get("recovery")), "")
    return f"Nobody knows whether {told.what} happened: {told['reason']}" + (f"; {way}" if way else "")


def _resolved(told: Told) -> str:
    happened = "happened" if told.said.get("state") == "succeeded" else "did not happen"
    source = _FOUND_OUT.get(str(told.said.get("resolution"))) or f"{told['by']} says"
    return f"Settled: {source} that {told.what} {happened}"


def _executed(told: Told) -> str:
    return f"{told['plugin']} {told['version']} ran{told.when('error', ' and failed: {}')}"


def _used(told: Told) -> str:
    became = "worked" if told.said.get("success") else "failed"
    return f"{told['tool_name']} of {told['plugin_id']} {became} in {told['duration_ms~took']}"


CALLS: Final[Mapping[str, Words]] = {
    "call.started": Words("Call started", "{who} started {what}"),
    "call.ended": Words("Call ended", _ended),
    "effect.in_doubt": Words("Outcome in doubt", _in_doubt),
    "effect.in_progress": Words("Still at work", "{what} is still being worked on; it is checked until {until~minute}"),
    "effect.resolved": Words("Doubt settled", _resolved),
    "execution.recorded": Words(
        "Execution recorded",
        _executed,
    ),
    "plugin.method_called": Words("Method called", "{what} was called"),
    "plugin.method_returned": Words("Method returned", "{what} answered in {duration_ms~took}"),
    "plugin.tool_invoked": Words("Tool used", _used),
}

APPROVALS: Final[Mapping[str, Words]] = {
    "approval.requested": Words("Approval requested", "{requester} wants to call {what}"),
    "approval.answered": Words("Request answered", _answered),
    "approval.consumed": Words("Approval used", "{what} starts, approved by {approved_by}"),
    "approval.ended": Words("Request ended", _request_ended),
    "approval.standing_given": Words("Standing approval given", _standing),
    "approval.standing_revoked": Words("Standing approval revoked", _revoked),
    "consent.given": Words("Consent given", "{by} enabled {plugin}.{callable} for {person}"),
    "consent.revoked": Words("Consent taken back", "{by} took back the consent of {person} to {plugin}.{callable}"),
}
