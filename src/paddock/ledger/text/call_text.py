"""Words for calls, for what waits for a person, and for effects that nobody was sure of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.ledger.text.sentence_template import EntryValues, SentenceTemplate

_STATUS_TEXT: Final = {
    "succeeded": "it worked",
    "failed": "it failed",
    "denied": "the rules did not allow it",
    "refused": "it was refused",
    "timed_out": "it took too long and was stopped",
    "cancelled": "it was cancelled",
    "in_doubt": "nobody knows whether it happened",
    "pending_approval": "a person is asked first",
}
_RECOVERY_TEXT: Final = {
    "none": "a person has to check",
    "atomic": "the plugin's own records will tell",
    "native_key": "it will be tried again under the same key",
    "probe": "the plugin will be asked to check",
}
_RESOLUTION_TEXT: Final = {
    "atomic": "the plugin's own records say",
    "native_key": "trying again under the same key showed",
    "probe": "the plugin checked",
}


def _ended(told: EntryValues) -> str:
    status = str(told.fields.get("status") or "")
    became = _STATUS_TEXT.get(status, status.replace("_", " ") or "it ended")
    words = f"{told.who} called {told.what}: {became}"
    if told.fields.get("replay_of"):
        return f"{words}; it got the answer of an earlier call with the same key"
    if status == "pending_approval":
        return words
    if status == "succeeded":
        return f"{words} in {told['duration_ms~took']}"
    return words + (told.text_if_present("error_message", " ({})") or told.text_if_present("error_code", " ({})"))


def _answered(told: EntryValues) -> str:
    said = "approved" if told.fields.get("approved") else "denied"
    more = "; more people have to approve it" if said == "approved" and told.fields.get("state") == "pending" else ""
    return f"{_answerer_text(told, 'answered_by')} {said} {told.what}{told.text_if_present('comment', ': “{}”')}{more}"


def _answerer_text(told: EntryValues, field: str) -> str:
    """Who answered; where the operator passed it on, both."""
    return told.text_if_present("operator", "{}, as ") + told[field]


def _request_ended(told: EntryValues) -> str:
    became = {
        "expired": "nobody answered in time",
        "withdrawn": "it was withdrawn",
        "voided": "what it was about has changed",
    }.get(str(told.fields.get("state")), f"it is {told['state']}")
    return f"The request to call {told.what} ended: {became}"


def _standing(told: EntryValues) -> str:
    reach = told.what if told.fields.get("method") else f"every tool of {told['name']}"
    lasts = "until it is revoked" if told.fields.get("scope") == "always" else "for one session"
    return f"{_answerer_text(told, 'given_by')} approved {reach} for {told['holder']}, {lasts}"


def _revoked(told: EntryValues) -> str:
    reach = told.what if told.fields.get("method") else f"every tool of {told['name']}"
    return f"{_answerer_text(told, 'revoked_by')} took back the standing approval for {reach}"


def _in_doubt(told: EntryValues) -> str:
    way = _RECOVERY_TEXT.get(str(told.fields.get("recovery")), "")
    return f"Nobody knows whether {told.what} happened: {told['reason']}" + (f"; {way}" if way else "")


def _resolved(told: EntryValues) -> str:
    happened = "happened" if told.fields.get("state") == "succeeded" else "did not happen"
    source = _RESOLUTION_TEXT.get(str(told.fields.get("resolution"))) or f"{told['by']} says"
    return f"Settled: {source} that {told.what} {happened}"


def _executed(told: EntryValues) -> str:
    return f"{told['plugin']} {told['version']} ran{told.text_if_present('error', ' and failed: {}')}"


def _used(told: EntryValues) -> str:
    became = "worked" if told.fields.get("success") else "failed"
    return f"{told['tool_name']} of {told['plugin_id']} {became} in {told['duration_ms~took']}"


CALL_SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "call.started": SentenceTemplate("Call started", "{who} started {what}"),
    "call.ended": SentenceTemplate("Call ended", _ended),
    "effect.in_doubt": SentenceTemplate("Outcome in doubt", _in_doubt),
    "effect.in_progress": SentenceTemplate(
        "Still at work", "{what} is still being worked on; it is checked until {until~minute}"
    ),
    "effect.resolved": SentenceTemplate("Doubt settled", _resolved),
    "execution.recorded": SentenceTemplate(
        "Execution recorded",
        _executed,
    ),
    "plugin.method_called": SentenceTemplate("Method called", "{what} was called"),
    "plugin.method_returned": SentenceTemplate("Method returned", "{what} answered in {duration_ms~took}"),
    "plugin.tool_invoked": SentenceTemplate("Tool used", _used),
}

APPROVAL_SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "approval.requested": SentenceTemplate("Approval requested", "{requester} wants to call {what}"),
    "approval.answered": SentenceTemplate("Request answered", _answered),
    "approval.consumed": SentenceTemplate("Approval used", "{what} starts, approved by {approved_by}"),
    "approval.ended": SentenceTemplate("Request ended", _request_ended),
    "approval.standing_given": SentenceTemplate("Standing approval given", _standing),
    "approval.standing_revoked": SentenceTemplate("Standing approval revoked", _revoked),
    "consent.given": SentenceTemplate("Consent given", "{by} enabled {plugin}.{callable} for {person}"),
    "consent.revoked": SentenceTemplate(
        "Consent taken back", "{by} took back the consent of {person} to {plugin}.{callable}"
    ),
}
