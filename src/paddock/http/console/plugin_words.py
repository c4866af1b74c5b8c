"""How a plugin is doing, in words for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Mood: TypeAlias = Literal["good", "busy", "calm", "bad"]

_RUNTIME: Final[Mapping[str, tuple[str, Mood]]] = {
    "running": ("Running", "good"),
    "spawning": ("Starting", "busy"),
    "crashed": ("It crashed, and is started again", "bad"),
    "failed": ("It does not run", "bad"),
    "stopped": ("Stopped", "calm"),
    "disabled": ("Starts with its first call", "calm"),
}
_INSTALLED: Final[Mapping[str, tuple[str, Mood]]] = {
    "disabled": ("Disabled", "calm"),
    "modified": ("Its files were changed, so it runs no more", "bad"),
    "broken": ("Its files are not whole", "bad"),
    "unrunnable": ("It names no program to run", "calm"),
}


@dataclass(frozen=True, slots=True)
class Told:
    """One plugin in a list."""

    name: str
    version: str
    description: str
    words: str
    mood: Mood
    reason: str
    hint: str


def told_of(listed: Mapping[str, Any]) -> Told:
    """A plugin as `Host.plugins` or `Offers.plugins` lists it."""
    runtime: Mapping[str, Any] = listed.get("runtime") or {}
    words, mood = state_of(str(listed.get("state", "enabled")), runtime)
    return Told(
        str(listed["name"]),
        str(listed.get("version", "")),
        str(listed.get("description") or ""),
        words,
        mood,
        str(runtime.get("reason") or ""),
        str(runtime.get("hint") or ""),
    )


def state_of(installed: str, runtime: Mapping[str, Any]) -> tuple[str, Mood]:
    """How it is doing: what its installation says where that keeps it from running, else its process."""
    if installed != "enabled":
        return _INSTALLED.get(installed, (installed.replace("_", " ").capitalize(), "calm"))
    state = str(runtime.get("state", ""))
    if not state:
        return "Ready", "calm"
    return _RUNTIME.get(state, (state.capitalize(), "calm"))


def in_trouble(listed: Mapping[str, Any]) -> bool:
    """Whether somebody has to look at it."""
    return told_of(listed).mood == "bad"
