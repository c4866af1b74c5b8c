"""One entry in one sentence, and the groups that people look for entries by. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.failures import is_failure
from paddock.ledger.text.call_text import APPROVAL_SENTENCES, CALL_SENTENCES
from paddock.ledger.text.people_text import HOST_SENTENCES, PEOPLE_SENTENCES
from paddock.ledger.text.plugin_text import CAPABILITY_SENTENCES, INSTALL_SENTENCES, PROCESS_SENTENCES
from paddock.ledger.text.sentence_template import UNKNOWN_PERSON, EntryValues, SentenceTemplate

EntrySeverity: TypeAlias = Literal["good", "busy", "calm", "bad"]


class EntryGroup(NamedTuple):
    """Types of entries that people look for together."""

    name: str
    title: str
    words: Mapping[str, SentenceTemplate]


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
    kind: words for group in ENTRY_GROUPS for kind, words in group.words.items()
}
"""Words for every type of entry that there is."""


def entry_sentence(entry: LedgerEntry) -> str:
    """What happened, in one sentence. What somebody else put into the ledger has only its type."""
    words = SENTENCE_TEMPLATES.get(entry.type)
    if words is None or "unreadable" in entry.facts:
        return f"{entry.type} was recorded"
    said = words.sentence(EntryValues(entry.data))
    return f"S{said[1:]}" if said.startswith(UNKNOWN_PERSON) else said  # names stay as they are written


def type_label(kind: str) -> str:
    """What a type of entry is called; its own name where there are no words for it."""
    words = SENTENCE_TEMPLATES.get(kind)
    return words.label if words else kind


def group_types(group: str) -> tuple[str, ...]:
    """The types of a group; none where there is no such group."""
    return tuple(next((one.words for one in ENTRY_GROUPS if one.name == group), ()))


def entry_severity(entry: LedgerEntry) -> EntrySeverity:
    """How an entry is shown: what went wrong is bad, what worked is good, what waits is busy."""
    if is_failure(entry.type, entry.facts):
        return "bad"
    status = entry.facts.get("status")
    if entry.type == "call.ended":
        return "good" if status == "succeeded" else "busy" if status == "pending_approval" else "calm"
    return "busy" if entry.type in ("approval.requested", "effect.in_progress") else "calm"
