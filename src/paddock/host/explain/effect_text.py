"""Describes ledger events of effects in progress or in doubt as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_RESOLVED_TEXT: Final = {
    "atomic": "the notes in its plugin's tables tell that it has{} happened",
    "native_key": "it was made again under its key, so it has{} happened",
    "probe": "its plugin looked: it has{} happened",
}
_PENDING_TEXT: Final = {
    "none": "a person has to look",
    "atomic": "the notes in its plugin's tables will tell",
    "native_key": "it is made again under its key",
    "probe": "its plugin is asked to look",
}


def describe_in_doubt(event: Mapping[str, Any]) -> str:
    """Describe the event that put an effect in doubt."""
    recovery = _PENDING_TEXT.get(event["recovery"], "")
    return f"whether it has happened is not known: {event['reason']}" + (f"; {recovery}" if recovery else "")


def describe_in_progress(event: Mapping[str, Any]) -> str:
    """Describe the event that an operator continues an effect in the background."""
    deadline = str(event["until"])[:19].replace("T", " ")
    return f"its operator was still at work on it, and is asked again until {deadline} UTC at the latest"


def describe_resolution(event: Mapping[str, Any], erased: str) -> str:
    """Describe how an effect was resolved and by whom; `erased` is the text for an erased principal."""
    negation = "" if event["state"] == "succeeded" else " not"
    template = _RESOLVED_TEXT.get(event["resolution"])
    return template.format(negation) if template else f"{event.get('by') or erased} said that it has{negation} happened"
