"""Labels and sentences for calls, approvals and effects with unknown outcome. Pure."""

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
    "in_doubt": "its outcome is unknown",
    "pending_approval": "a person is asked first",
}
_DRY_RUN_TEXT: Final = {
    "run": "it would run",
    "wait_for_approval": "a person would be asked first",
    "be_denied": "the rules would not allow it",
    "be_rejected": "it would be refused",
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


def _ended(values: EntryValues) -> str:
    status = str(values.fields.get("status") or "")
    outcome = _STATUS_TEXT.get(status, status.replace("_", " ") or "it ended")
    sentence = f"{values.who} called {values.what}: {outcome}"
    if values.fields.get("replay_of"):
        return f"{sentence}; it got the answer of an earlier call with the same key"
    if status == "pending_approval":
        return sentence
    if status == "succeeded":
        return f"{sentence} in {values['duration_ms~took']}"
    return sentence + (
        values.text_if_present("error_message", " ({})") or values.text_if_present("error_code", " ({})")
    )


def _dry_run(values: EntryValues) -> str:
    would = _DRY_RUN_TEXT.get(str(values.fields.get("would")), "the outcome is not known")
    return f"{values.who} asked what a call of {values.what} would do: {would}"


def _answered(values: EntryValues) -> str:
    answer = "approved" if values.fields.get("approved") else "denied"
    more = (
        "; more people have to approve it" if answer == "approved" and values.fields.get("state") == "pending" else ""
    )
    comment = values.text_if_present("comment", ": “{}”")
    standing = values.text_if_present("standing", ", with the standing approval {}")
    return f"{_answerer_text(values, 'answered_by')} {answer} {values.what}{standing}{comment}{more}"


def _answerer_text(values: EntryValues, field: str) -> str:
    """Name who answered; both people where the operator passed the answer on."""
    return values.text_if_present("operator", "{}, as ") + values[field]


def _request_ended(values: EntryValues) -> str:
    outcome = {
        "expired": "it was not answered in time",
        "withdrawn": "it was withdrawn",
        "voided": "what it was about has changed",
    }.get(str(values.fields.get("state")), f"it is {values['state']}")
    return f"The request to call {values.what} ended: {outcome}"


def _standing(values: EntryValues) -> str:
    subject = values.what if values.fields.get("method") else f"every tool of {values['name']}"
    duration = "until the plugin is upgraded" if values.fields.get("scope") == "always" else "for one session"
    return f"{_answerer_text(values, 'given_by')} approved {subject} for {values['holder']}, {duration}"


def _revoked(values: EntryValues) -> str:
    subject = values.what if values.fields.get("method") else f"every tool of {values['name']}"
    return f"{_answerer_text(values, 'revoked_by')} took back the standing approval for {subject}"


def _in_doubt(values: EntryValues) -> str:
    next_step = _RECOVERY_TEXT.get(str(values.fields.get("recovery")), "")
    return f"The outcome of {values.what} is unknown: {values['reason']}" + (f"; {next_step}" if next_step else "")


def _resolved(values: EntryValues) -> str:
    happened = "happened" if values.fields.get("state") == "succeeded" else "did not happen"
    source = _RESOLUTION_TEXT.get(str(values.fields.get("resolution"))) or f"{values['by']} says"
    return f"Settled: {source} that {values.what} {happened}"


def _used(values: EntryValues) -> str:
    outcome = "worked" if values.fields.get("success") else "failed"
    return f"{values['tool_name']} of {values['plugin_id']} {outcome} in {values['duration_ms~took']}"


CALL_SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "call.started": SentenceTemplate("Call started", "{who} started {what}"),
    "call.ended": SentenceTemplate("Call ended", _ended),
    "call.dry_run": SentenceTemplate("Dry run", _dry_run),
    "effect.in_doubt": SentenceTemplate("Outcome unknown", _in_doubt),
    "effect.in_progress": SentenceTemplate(
        "Still at work", "{what} is still being worked on; it is checked until {until~minute}"
    ),
    "effect.resolved": SentenceTemplate("Outcome known", _resolved),
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
