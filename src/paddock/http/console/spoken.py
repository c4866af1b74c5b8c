"""Names and states of the host as people say them. Pure."""

from __future__ import annotations

from typing import Final

_KINDS: Final = {
    "agent": "agent {}",
    "adapter": "adapter {}",
    "plugin": "plugin {}",
    "key": "API key {}",
    "group": "everybody in {}",
    "role": "anyone with the role {}",
}
_ASKED: Final = {
    "pending": ("Waiting for an answer", "busy"),
    "approved": ("Approved", "good"),
    "consumed": ("Approved and done", "good"),
    "denied": ("Denied", "bad"),
    "expired": ("Expired, nobody answered", "calm"),
    "voided": ("Void", "calm"),
    "withdrawn": ("Withdrawn", "calm"),
}


def who(principal: str) -> str:
    """Somebody by name: `ann` for `user:ann`. What else can act is named with its kind."""
    tenant, _, name = principal.rpartition("/")
    kind, _, plain = name.partition(":")
    told = _KINDS.get(kind, "{}").format(plain) if plain else name
    return f"{told} of {tenant}" if tenant else told


def asked_words(state: str) -> str:
    """What has become of a request."""
    return _ASKED.get(state, (state.capitalize(), "calm"))[0]


def asked_mood(state: str) -> str:
    """How that is shown."""
    return _ASKED.get(state, ("", "calm"))[1]


def sentence(text: str) -> str:
    """The same, beginning with a capital."""
    return text[:1].upper() + text[1:]
