"""Labels and sentences for people and keys, and for the host: policies, secrets, webhooks, the ledger. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.ledger.text.sentence_template import EntryValues, SentenceTemplate

_PERSON_CHANGE_TEXT: Final = {
    "roles": "now has the roles {roles}",
    "scopes": "now has the scopes {scopes}",
    "renamed": "has another display name",
    "disabled": "may not act any more",
    "enabled": "may act again",
    "removed": "was removed",
}
_GROUP_CHANGE_TEXT: Final = {
    "added": "{by} made the group {group}",
    "removed": "{by} removed the group {group}",
    "member_added": "{by} added {person} to the group {group}",
    "member_removed": "{by} took {person} out of the group {group}",
}
_RULE_FILE_CHANGE_TEXT: Final = {
    "added": "{by} added the rules in {file}",
    "removed": "{by} removed the rules in {file}",
    "failed": "The rules that {by} saved in {file} could not be written",
}
_WEBHOOK_CHANGE_TEXT: Final = {
    "enabled": "was switched on",
    "disabled": "was switched off",
    "rotated": "got another signing secret",
}


def _changed(values: EntryValues) -> str:
    change = _PERSON_CHANGE_TEXT.get(str(values.fields.get("change")), "was changed").format_map(values)
    return f"{values['person']} {change} (by {values['by']})"


def _group(values: EntryValues) -> str:
    return _GROUP_CHANGE_TEXT.get(str(values.fields.get("change")), "{by} changed the group {group}").format_map(values)


def _identity(values: EntryValues) -> str:
    verb = "was linked to" if values.fields.get("change") == "linked" else "was unlinked from"
    return f"{values['person']} {verb} {values['issuer']} (by {values['by']})"


def _session_ended(values: EntryValues) -> str:
    person, by = values["person"], values["by"]
    return f"{person} signed out" if by == person else f"{by} signed {person} out"


def _webhook(values: EntryValues) -> str:
    change = _WEBHOOK_CHANGE_TEXT.get(str(values.fields.get("change")), "was changed")
    by = values.text_if_present("by", " by {}") or " by the host itself"
    return f"The webhook {values['webhook']} {change}{by}{values.text_if_present('reason', ': {}')}"


def _edited_rules(values: EntryValues) -> str:
    change = _RULE_FILE_CHANGE_TEXT.get(str(values.fields.get("change")), "{by} changed the rules in {file}")
    return change.format_map(values)


def _secret(values: EntryValues) -> str:
    owner = values.text_if_present("owner", " of {}")
    return f"{values['by']} set the secret {values['secret']}{owner}"


PEOPLE_SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "session.opened": SentenceTemplate("Signed in", "{person} signed in ({via})"),
    "session.ended": SentenceTemplate("Signed out", _session_ended),
    "sign_in.refused": SentenceTemplate("Sign-in refused", "{person} was not let in: {reason}"),
    "login_link.made": SentenceTemplate("Sign-in link made", "{by} made a sign-in link for {person}"),
    "login_link.refused": SentenceTemplate("Sign-in link refused", "A sign-in link for {person} was refused: {reason}"),
    "person.added": SentenceTemplate("Person added", "{by} added {person}"),
    "person.changed": SentenceTemplate("Person changed", _changed),
    "group.changed": SentenceTemplate("Group changed", _group),
    "identity.linked": SentenceTemplate("Identity linked", _identity),
    "api_key.created": SentenceTemplate("API key made", "{by} made the API key {key_id} for {owner}"),
    "api_key.revoked": SentenceTemplate("API key revoked", "{by} revoked the API key {key_id} of {owner}"),
    "tenant.created": SentenceTemplate("Tenant made", "{by} made the tenant {tenant}"),
    "tenant.removed": SentenceTemplate("Tenant removed", "{by} removed the tenant {tenant}"),
}

HOST_SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "policy.edited": SentenceTemplate("Rules edited", _edited_rules),
    "policy.changed": SentenceTemplate("Rules changed", "Other rules decide from now on"),
    "secret.set": SentenceTemplate("Secret set", _secret),
    "secret.removed": SentenceTemplate("Secret removed", "{by} removed the secret {secret}"),
    "secret.rotated": SentenceTemplate(
        "Secrets locked anew",
        "{by} locked {count~secret} with a new key",
    ),
    "webhook.added": SentenceTemplate("Webhook added", "{by} added a webhook to {host}"),
    "webhook.changed": SentenceTemplate("Webhook changed", _webhook),
    "webhook.removed": SentenceTemplate("Webhook removed", "{by} removed the webhook {webhook}"),
    "webhook.gave_up": SentenceTemplate(
        "Webhook not delivered", "The webhook {webhook} did not take an event after {times} tries ({error_code})"
    ),
    "queue.given_up": SentenceTemplate(
        "Work given up", "{kind} failed {times} times and is not tried any more ({error_code})"
    ),
    "repair.ignored": SentenceTemplate("Repair ignored", "{by} wants to hear no more of the repair {repair}"),
    "repair.unignored": SentenceTemplate("Repair noticed again", "{by} wants to hear of the repair {repair} again"),
    "ledger.erased": SentenceTemplate(
        "Personal data erased", "{who} erased what was said of a person in {entries~row}"
    ),
    "ledger.undescribed": SentenceTemplate("Not described", "Something happened that could not be described: {reason}"),
}
