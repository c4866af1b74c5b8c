"""What verifying a chain came to, in words for people. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from paddock.ledger.verify import Finding, Verdict

_TITLES: Final[dict[Verdict, str]] = {
    "sound": "Nothing was changed",
    "tampered": "Somebody changed what was recorded",
    "truncated": "Entries are missing at the end",
    "unreadable": "It could not be verified",
}
_MEANING: Final[dict[Verdict, str]] = {
    "sound": "Every entry is what was written, and none is missing between the first and the last.",
    "tampered": "An entry is not what was written, or one was taken out or put in. What stands before it still holds.",
    "truncated": "Entries that a signature or the chain’s own end tells of are gone. What is left still holds.",
    "unreadable": "This says nothing about the entries themselves. Mend the cause, then verify again.",
}
_NEXT: Final[dict[Verdict, str]] = {
    "sound": "",
    "tampered": "Keep a copy of the database and of the checkpoint files as they are now, before anybody mends"
    " anything, and find out who could write to them.",
    "truncated": "Keep a copy of the database and of the checkpoint files as they are now. A backup that holds more"
    " entries shows what is missing.",
    "unreadable": "",
}


@dataclass(frozen=True, slots=True)
class Told:
    """A verdict for people."""

    title: str
    mood: Literal["good", "bad", "busy"]
    meaning: str
    what: str
    next: str
    notes: tuple[str, ...]


def told_of(finding: Finding) -> Told:
    """A finding in words."""
    if finding.empty:
        meaning = "The chain begins with the first thing that happens."
        return Told("Nothing was recorded yet", "good", meaning, "", "", ())
    where = f"Entry {finding.seq:,}: " if finding.seq is not None else ""
    what = f"{where}{finding.what}" if finding.what else ""
    mood: Literal["good", "bad", "busy"] = "good" if finding.verdict == "sound" else "bad"
    if finding.verdict == "unreadable":
        mood = "busy"
    return Told(
        _TITLES[finding.verdict],
        mood,
        _MEANING[finding.verdict],
        what,
        _NEXT[finding.verdict],
        tuple(_notes(finding)) if finding.verdict == "sound" else (),
    )


def _notes(finding: Finding) -> list[str]:
    if not finding.checkpoints:
        notes = [f"{_entries(finding.rows)} were checked. Nothing is signed yet, so only the chain itself tells."]
    else:
        signed = f"{finding.checkpoints:,} checkpoint{'' if finding.checkpoints == 1 else 's'}"
        notes = [f"{_entries(finding.rows)} and {signed} were checked."]
    if finding.unsigned and finding.checkpoints:
        are = "is" if finding.unsigned == 1 else "are"
        notes.append(f"{_entries(finding.unsigned)} since the last checkpoint {are} chained, and not signed yet.")
    if finding.erased:
        notes.append(f"Personal data was erased from {_entries(finding.erased)}, as the ledger tells.")
    if len(finding.keys) > 1:
        notes.append(f"{len(finding.keys)} keys signed one after the other: {', '.join(finding.keys)}.")
    return notes


def _entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"
