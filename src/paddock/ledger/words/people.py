"""Words for people and their keys, and for the host itself: rules, secrets, webhooks, the ledger. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.ledger.words.phrase import Told, Words

_PERSON: Final = {
    "roles": "now has the roles {roles}",
    "scopes": "now has the scopes {scopes}",
    "disabled": "may not act any more",
    "enabled": "may act again",
    "removed": "was removed",
}
_GROUP: Final = {
    "added": "{by} made the group {group}",
    "removed": "{by} removed the group {group}",
    "member_added": "{by} added {person} to the group {group}",
    "member_removed": "{by} took {person} out of the group {group}",
}
_WEBHOOK: Final = {
    "enabled": "was switched on",
    "disabled": "was switched off",
    "rotated": "got another signing secret",
}


def _changed(told: Told) -> str:
    words = _PERSON.get(str(told.said.get("change")), "was changed").format_map(told)
    return f"{told['person']} {words} (by {told['by']})"


def _group(told: Told) -> str:
    return _GROUP.get(str(told.said.get("change")), "{by} changed the group {group}").format_map(told)


def _identity(told: Told) -> str:
    word = "was linked to" if told.said.get("change") == "linked" else "was unlinked from"
    return f"{told['person']} {word} {told['issuer']} (by {told['by']})"


def _session_ended(told: Told) -> str:
    person, by = told["person"], told["by"]
    return f"{person} signed out" if by == person else f"{by} signed {person} out"


def _webhook(told: Told) -> str:
    words = _WEBHOOK.get(str(told.said.get("change")), "was changed")
    by = told.when("by", " by {}") or " by the host itself"
    return f"The webhook {told['webhook']} {words}{by}{told.when('reason', ': {}')}"


def _secret(told: Told) -> str:
    whose = told.when("owner", " of {}")
    return f"{told['by']} set the secret {told['secret']}{whose}"


PEOPLE: Final[Mapping[str, Words]] = {
    "session.opened": Words("Signed in", "{person} signed in ({via})"),
    "session.ended": Words("Signed out", _session_ended),
    "sign_in.refused": Words("Sign-in refused", "{person} was not let in: {reason}"),
    "login_link.made": Words("Sign-in link made", "{by} made a sign-in link for {person}"),
    "login_link.refused": Words("Sign-in link refused", "A sign-in link for {person} was refused: {reason}"),
    "person.added": Words("Person added", "{by} added {person}"),
    "person.changed": Words("Person changed", _changed),
    "group.changed": Words("Group changed", _group),
    "identity.linked": Words("Identity linked", _identity),
    "api_key.created": Words("API key made", "{by} made the API key {key_id} for {owner}"),
    "api_key.revoked": Words("API key revoked", "{by} revoked the API key {key_id} of {owner}"),
    "tenant.created": Words("Tenant made", "{by} made the tenant {tenant}"),
    "tenant.removed": Words("Tenant removed", "{by} removed the tenant {tenant}"),
}

HOST: Final[Mapping[str, Words]] = {
    "policy.changed": Words("Rules changed", "Other rules decide from now on"),
    "secret.set": Words("Secret set", _secret),
    "secret.removed": Words("Secret removed", "{by} removed the secret {secret}"),
    "secret.rotated": Words(
        "Secrets locked anew",
        "{by} locked {count~secret} with a new key",
    ),
    "webhook.added": Words("Webhook added", "{by} added a webhook to {host}"),
    "webhook.changed": Words("Webhook changed", _webhook),
    "webhook.removed": Words("Webhook removed", "{by} removed the webhook {webhook}"),
    "webhook.gave_up": Words(
        "Webhook not delivered", "The webhook {webhook} did not take an event after {times} tries ({error_code})"
    ),
    "queue.given_up": Words("Work given up", "{kind} failed {times} times and is not tried any more ({error_code})"),
    "repair.ignored": Words("Repair ignored", "{by} wants to hear no more of the repair {repair}"),
    "repair.unignored": Words("Repair noticed again", "{by} wants to hear of the repair {repair} again"),
    "ledger.erased": Words("Personal data erased", "{who} erased what was said of a person in {entries~row}"),
    "ledger.undescribed": Words("Not described", "Something happened that could not be described: {reason}"),
}
