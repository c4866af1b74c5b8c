"""Principals and approval states in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from paddock.principals.display_names import find_name

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
_PRINCIPAL_TEXTS: Final = {
    "agent": "agent {}",
    "adapter": "adapter {}",
    "plugin": "plugin {}",
    "local": "local user {}",
    "key": "API key {}",
    "group": "members of {}",
    "role": "anyone with the role {}",
}
_APPROVAL_STATES: Final = {
    "pending": ("Waiting for an answer", "busy"),
    "approved": ("Approved", "good"),
    "consumed": ("Approved and done", "good"),
    "denied": ("Denied", "bad"),
    "expired": ("Expired without an answer", "calm"),
    "voided": ("Void", "calm"),
    "withdrawn": ("Withdrawn", "calm"),
}


def principal_name(principal: str, names: Mapping[str, str] = _NO_NAMES) -> str:
    """Return a readable name: `Ann Lee` for `user:ann`, `Ann’s assistant` for her key of that label.

    Others are named with their kind.

    Args:
        principal: The principal.
        names: What people and API keys are called; see `read_names`.
    """
    tenant, _, name = principal.rpartition("/")
    if not tenant and (known := find_name(name, names)):
        return known
    prefix, _, bare_name = name.partition(":")
    text = _PRINCIPAL_TEXTS.get(prefix, "{}").format(bare_name) if bare_name else name
    return f"{text} of {tenant}" if tenant else text


def requester_name(request: Mapping[str, Any], names: Mapping[str, str] = _NO_NAMES) -> str:
    """Return who requests an approval: for an API key that is gone also the person it acted for."""
    requester, person = str(request["requester"]), str(request.get("for_person") or "")
    if not requester.rpartition("/")[2].startswith("key:") or find_name(requester, names) or not person:
        return principal_name(requester, names)
    return f"{principal_name(person, names)}, with the {principal_name(requester, names)}"


def approval_state_text(state: str) -> str:
    """Describe the state of an approval request."""
    return _APPROVAL_STATES.get(state, (state.capitalize(), "calm"))[0]


def approval_scope_text(answer: Mapping[str, Any]) -> str:
    """Describe for which calls an approval holds."""
    if answer["scope"] == "once":
        return "for this call alone"
    calls = "every tool of the plugin" if answer["reach"] == "plugin" else "the tool"
    return f"for {calls}, {'until the plugin is upgraded' if answer['scope'] == 'always' else 'in this session'}"


def approval_state_severity(state: str) -> str:
    """Return the severity class of an approval state."""
    return _APPROVAL_STATES.get(state, ("", "calm"))[1]


def multiline_params(params: Any) -> list[tuple[str, str]]:
    """Return the parameters with multi-line text, which JSON would make hard to read."""
    if not isinstance(params, dict):
        return []
    return [(name, value) for name, value in cast("dict[str, Any]", params).items() if _is_multiline(value)]


def _is_multiline(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def capitalize_first(text: str) -> str:
    """Capitalize the first letter."""
    return text[:1].upper() + text[1:]
