"""Inbox items in words: who wants what, what makes it dangerous, and who else may answer. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from paddock.console.text.input_diff import in_form_order
from paddock.console.text.principal_text import capitalize_first, principal_name, requester_name
from paddock.host.inbox.item import InboxItem, InboxKind
from paddock.manifest.effects import LEAVING_EFFECTS, Effect, Risk, parse_effect, risk_of_effects

KIND_TEXTS: Final[Mapping[InboxKind, str]] = {
    InboxKind.APPROVAL: "Approvals",
    InboxKind.CONSENT: "Consents",
    InboxKind.UNKNOWN_OUTCOME: "Unknown outcomes",
    InboxKind.DEFINITION: "Changed tools",
    InboxKind.REPAIR: "Repairs",
}
_TAGS: Final[Mapping[InboxKind, str]] = {
    InboxKind.APPROVAL: "Approval",
    InboxKind.CONSENT: "Consent",
    InboxKind.UNKNOWN_OUTCOME: "Outcome unknown",
    InboxKind.DEFINITION: "Blocked: tool definition changed",
    InboxKind.REPAIR: "Repair",
}
_CALL_RISKS: Final = {Risk.WARNING: "may change something", Risk.NOTICE: "changes nothing that lasts"}
_RISKS: Final[Mapping[InboxKind, Mapping[Risk, str]]] = {
    InboxKind.APPROVAL: _CALL_RISKS,
    InboxKind.CONSENT: _CALL_RISKS,
    InboxKind.REPAIR: {Risk.DANGER: "urgent", Risk.WARNING: "broken", Risk.NOTICE: "worth a look"},
}

_MAX_GLANCE_CHARS: Final = 80
_NO_TITLES: Final[Mapping[str, str]] = MappingProxyType({})


def item_tag(item: InboxItem) -> str:
    """Return what is asked for and how bad it is, in a word or two each; dangers are named apart."""
    risk = _RISKS.get(item.kind, {}).get(item.risk, "") if not danger_texts(item.effects) else ""
    return f"{_TAGS[item.kind]} · {risk}" if risk else _TAGS[item.kind]


def item_sentence(item: InboxItem, names: Mapping[str, str], me: str) -> str:
    """Return who wants what, with names; `me` is the person who reads it."""
    if item.kind is InboxKind.CONSENT:
        return consent_sentence(item.plugin, item.callable, item.for_person, names, me)
    if item.kind is not InboxKind.APPROVAL:
        return item.title
    asker = requester_name({"requester": item.requester, "for_person": item.for_person}, names)
    return f"{capitalize_first(asker)} wants to run {item.callable} of {item.plugin}"


def consent_sentence(plugin: str, callable_name: str, person: str, names: Mapping[str, str], me: str) -> str:
    """Return what a request for consent asks, and of whom: `mail asks for your consent (send)`."""
    whose = "your " if person == me else f"{principal_name(person, names)}’s " if person else ""
    return f"{plugin} asks for {whose}consent ({callable_name})"


def other_answerers(answerable_by: Iterable[str], me: str, names: Mapping[str, str]) -> str:
    """Return who may answer besides the reader; empty if no one else is named."""
    return ", ".join(principal_name(who, names) for who in answerable_by if who != me)


def danger_texts(effects: Iterable[str]) -> list[str]:
    """Return what makes a call dangerous, the worst first; empty if nothing does."""
    known = {parse_effect(effect) for effect in effects}
    texts: list[str] = []
    if not known.isdisjoint(LEAVING_EFFECTS):
        texts.append("Leaves this machine")
    if risk_of_effects(effects) is Risk.DANGER:
        texts.append("Cannot be undone")
    if Effect.UNKNOWN in known:
        texts.append("Does not declare what it changes")
    return texts


def input_texts(inputs: Mapping[str, Any], titles: Mapping[str, str] = _NO_TITLES) -> list[tuple[str, str]]:
    """Return inputs as titles with their exact values: texts as they are, everything else as JSON.

    Args:
        inputs: Their values.
        titles: The titles of the tool's inputs by their names, in the order of its form.
    """
    values = [(name, inputs[name]) for name in in_form_order(inputs, titles)]
    return [(titles.get(name, name), value if isinstance(value, str) else _as_json(value)) for name, value in values]


def inputs_glance(inputs: Mapping[str, Any] | None, titles: Mapping[str, str] = _NO_TITLES) -> str:
    """Return the first input, shortened; empty if there is none, or if they are too long for a list."""
    if not inputs:
        return ""
    title, text = input_texts(inputs, titles)[0]
    whole = f"{title}: {text}"
    return whole if len(whole) <= _MAX_GLANCE_CHARS else whole[: _MAX_GLANCE_CHARS - 1] + "…"


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
