"""Describes one entry in one sentence, and groups entry types for filters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.failures import is_failure
from paddock.ledger.text.call_text import APPROVAL_SENTENCES, CALL_SENTENCES
from paddock.ledger.text.people_text import HOST_SENTENCES, PEOPLE_SENTENCES
from paddock.ledger.text.plugin_text import CAPABILITY_SENTENCES, INSTALL_SENTENCES, PROCESS_SENTENCES
from paddock.ledger.text.sentence_template import UNKNOWN_PERSON, EntryValues, SentenceTemplate

EntrySeverity: TypeAlias = Literal["good", "busy", "calm", "bad"]


class EntryGroup(NamedTuple):
    """Entry types that people look for together."""

    name: str
    title: str
    templates: Mapping[str, SentenceTemplate]


ENTRY_GROUPS: Final = (
    EntryGroup("calls", "Calls and their effects", CALL_SENTENCES),
    EntryGroup("approvals", "Approvals and consents", APPROVAL_SENTENCES),
    EntryGroup("installed", "Plugins: installed and changed", INSTALL_SENTENCES),
    EntryGroup("running", "Plugins: running", PROCESS_SENTENCES),
    EntryGroup("asking", "Plugins: what they asked for", CAPABILITY_SENTENCES),
    EntryGroup("people", "People and keys", PEOPLE_SENTENCES),
    EntryGroup("host", "Rules, secrets, webhooks", HOST_SENTENCES),
)
SENTENCE_TEMPLATES: Final[Mapping[str, SentenceTemplate]] = {
    kind: template for group in ENTRY_GROUPS for kind, template in group.templates.items()
}
"""Templates for every entry type."""


def entry_sentence(
    entry: LedgerEntry, names: Mapping[str, str] = MappingProxyType({}), *, short_names: bool = False
) -> str:
    """Describe an entry in one sentence; `names` are those of people and API keys. See `EntryValues`.

    Unknown or unreadable entries are described by their type.
    """
    template = SENTENCE_TEMPLATES.get(entry.type)
    if template is None or "unreadable" in entry.facts:
        return f"{entry.type} was recorded"
    sentence = template.sentence(EntryValues(entry.data, names, short_names=short_names))
    return f"A{sentence[1:]}" if sentence.startswith(UNKNOWN_PERSON) else sentence  # names stay as they are written


def type_label(kind: str) -> str:
    """Return the label of an entry type; the type itself if it has none."""
    template = SENTENCE_TEMPLATES.get(kind)
    return template.label if template else kind


def group_types(group: str) -> tuple[str, ...]:
    """Return the types of a group; none if there is no such group."""
    return tuple(next((one.templates for one in ENTRY_GROUPS if one.name == group), ()))


def entry_severity(entry: LedgerEntry) -> EntrySeverity:
    """Return how an entry is highlighted: failures bad, successes good, pending busy."""
    if is_failure(entry.type, entry.facts):
        return "bad"
    status = entry.facts.get("status")
    if entry.type == "call.ended":
        return "good" if status == "succeeded" else "busy" if status == "pending_approval" else "calm"
    return "busy" if entry.type in ("approval.requested", "effect.in_progress") else "calm"
