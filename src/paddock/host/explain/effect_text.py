"""What the ledger tells of effects that were in progress or in doubt, in words. Pure."""

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


def describe_in_doubt(told: Mapping[str, Any]) -> str:
    """From here on nobody knew."""
    way = _PENDING_TEXT.get(told["recovery"], "")
    return f"whether it has happened is not known: {told['reason']}" + (f"; {way}" if way else "")


def describe_in_progress(told: Mapping[str, Any]) -> str:
    """Its operator went on with it."""
    until = str(told["until"])[:19].replace("T", " ")
    return f"its operator was still at work on it, and is asked again until {until} UTC at the latest"


def describe_resolution(told: Mapping[str, Any], erased: str) -> str:
    """What became of it, and who says so; `erased` stands for whoever was erased."""
    no = "" if told["state"] == "succeeded" else " not"
    words = _RESOLVED_TEXT.get(told["resolution"])
    return words.format(no) if words else f"{told.get('by') or erased} said that it has{no} happened"
