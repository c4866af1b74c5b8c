"""One entry in one sentence, and the groups that people look for entries by. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from paddock.ledger.entry import Entry
from paddock.ledger.went_wrong import went_wrong
from paddock.ledger.words.asking import ASKING
from paddock.ledger.words.calls import APPROVALS, CALLS
from paddock.ledger.words.people import HOST, PEOPLE
from paddock.ledger.words.phrase import NOBODY_KNOWN, Told, Words
from paddock.ledger.words.plugins import INSTALLED, RUNNING

Mood: TypeAlias = Literal["good", "busy", "calm", "bad"]


class Group(NamedTuple):
    """Types of entries that people look for together."""

    name: str
    title: str
    words: Mapping[str, Words]


GROUPS: Final = (
    Group("calls", "Calls and their effects", CALLS),
    Group("approvals", "Approvals and consents", APPROVALS),
    Group("installed", "Plugins: installed and changed", INSTALLED),
    Group("running", "Plugins: running", RUNNING),
    Group("asking", "Plugins: what they asked for", ASKING),
    Group("people", "People and keys", PEOPLE),
    Group("host", "Rules, secrets, webhooks", HOST),
)
WORDS: Final[Mapping[str, Words]] = {kind: words for group in GROUPS for kind, words in group.words.items()}
"""Words for every type of entry that there is."""


def sentence_of(entry: Entry) -> str:
    """What happened, in one sentence. What somebody else put into the ledger has only its type."""
    words = WORDS.get(entry.type)
    if words is None or "unreadable" in entry.facts:
        return f"{entry.type} was recorded"
    said = words.sentence(Told(entry.data))
    return f"S{said[1:]}" if said.startswith(NOBODY_KNOWN) else said  # names stay as they are written


def label_of(kind: str) -> str:
    """What a type of entry is called; its own name where there are no words for it."""
    words = WORDS.get(kind)
    return words.label if words else kind


def types_of(group: str) -> tuple[str, ...]:
    """The types of a group; none where there is no such group."""
    return tuple(next((one.words for one in GROUPS if one.name == group), ()))


def mood_of(entry: Entry) -> Mood:
    """How an entry is shown: what went wrong is bad, what worked is good, what waits is busy."""
    if went_wrong(entry.type, entry.facts):
        return "bad"
    status = entry.facts.get("status")
    if entry.type == "call.ended":
        return "good" if status == "succeeded" else "busy" if status == "pending_approval" else "calm"
    return "busy" if entry.type in ("approval.requested", "effect.in_progress") else "calm"
