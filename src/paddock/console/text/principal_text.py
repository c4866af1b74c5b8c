"""Names and states of the host as people say them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

_PRINCIPAL_TEXTS: Final = {
    "agent": "agent {}",
    "adapter": "adapter {}",
    "plugin": "plugin {}",
    "key": "API key {}",
    "group": "everybody in {}",
    "role": "anyone with the role {}",
}
_APPROVAL_STATES: Final = {
    "pending": ("Waiting for an answer", "busy"),
    "approved": ("Approved", "good"),
    "consumed": ("Approved and done", "good"),
    "denied": ("Denied", "bad"),
    "expired": ("Expired, nobody answered", "calm"),
    "voided": ("Void", "calm"),
    "withdrawn": ("Withdrawn", "calm"),
}


def principal_name(principal: str) -> str:
    """Somebody by name: `ann` for `user:ann`. What else can act is named with its kind."""
    tenant, _, name = principal.rpartition("/")
    kind, _, plain = name.partition(":")
    told = _PRINCIPAL_TEXTS.get(kind, "{}").format(plain) if plain else name
    return f"{told} of {tenant}" if tenant else told


def requester_name(request: Mapping[str, Any]) -> str:
    """Who asks for a person's yes: where a key does, whom it acts for, for nobody knows people by their keys."""
    requester, person = str(request["requester"]), str(request.get("for_person") or "")
    if not requester.rpartition("/")[2].startswith("key:") or not person:
        return principal_name(requester)
    return f"{principal_name(person)} ({principal_name(requester)})"


def approval_state_text(state: str) -> str:
    """What has become of a request."""
    return _APPROVAL_STATES.get(state, (state.capitalize(), "calm"))[0]


def approval_state_severity(state: str) -> str:
    """How that is shown."""
    return _APPROVAL_STATES.get(state, ("", "calm"))[1]


def multiline_params(params: Any) -> list[tuple[str, str]]:
    """Those parameters that are texts of several lines: in JSON nobody reads them as they will be read."""
    if not isinstance(params, dict):
        return []
    return [(name, value) for name, value in cast("dict[str, Any]", params).items() if _is_multiline(value)]


def _is_multiline(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def capitalize_first(text: str) -> str:
    """The same, beginning with a capital."""
    return text[:1].upper() + text[1:]
