"""Plugins in words: status and trust. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

PluginSeverity: TypeAlias = Literal["good", "busy", "calm", "bad"]

_RUNTIME_TEXTS: Final[Mapping[str, tuple[str, PluginSeverity]]] = {
    "running": ("Running", "good"),
    "spawning": ("Starting", "busy"),
    "crashed": ("Crashed, starting again", "bad"),
    "failed": ("Not running", "bad"),
    "stopped": ("Stopped", "calm"),
    "disabled": ("Stopped", "calm"),
}
_INSTALL_STATE_TEXTS: Final[Mapping[str, tuple[str, PluginSeverity]]] = {
    "disabled": ("Disabled", "calm"),
    "modified": ("Blocked: its files were changed", "bad"),
    "version missing": ("The version it is pinned to was removed", "bad"),
}
_GIVEN_UP_TEXT: Final[tuple[str, PluginSeverity]] = ("Disabled after repeated crashes", "bad")
_IDLE_TEXT: Final[tuple[str, PluginSeverity]] = ("Idle, starts when it is called", "calm")
_TRUST_TEXTS: Final[Mapping[str, str]] = {
    "verified": "Signed with a key you trust.",
    "community-signed": "Signed, but not with a key you trust.",
    "unsigned": "Unsigned.",
    "modified": "Its files are not what was installed.",
}


class PluginSummary(Struct, frozen=True):
    """One plugin in a list."""

    name: str
    version: str
    description: str
    words: str
    mood: PluginSeverity
    reason: str
    hint: str


def summarize_plugin(listed: Mapping[str, Any]) -> PluginSummary:
    """Summarize a plugin as `PluginInventory.list_all` or `PermittedPlugins.plugins` lists it."""
    runtime: Mapping[str, Any] = listed.get("runtime") or {}
    given_up = str(listed.get("given_up") or "")
    status_text, severity = plugin_status(str(listed.get("state", "enabled")), runtime, given_up=given_up)
    return PluginSummary(
        str(listed["name"]),
        str(listed.get("version", "")),
        str(listed.get("description") or ""),
        status_text,
        severity,
        str(runtime.get("reason") or given_up),
        str(runtime.get("hint") or ""),
    )


def matches_search(plugin: PluginSummary, search: str) -> bool:
    """Return whether a plugin's summary contains all words."""
    text = f"{plugin.name} {plugin.description} {plugin.words}".lower()
    return all(term in text for term in search.lower().split())


def plugin_status(installed: str, runtime: Mapping[str, Any], *, given_up: str = "") -> tuple[str, PluginSeverity]:
    """Return the status and its severity: of the installation if that prevents running, else of the process.

    `given_up` is the reason if the host disabled it.
    """
    if installed == "disabled" and given_up:
        return _GIVEN_UP_TEXT
    if installed != "enabled":
        return _INSTALL_STATE_TEXTS.get(installed, (installed.replace("_", " ").capitalize(), "calm"))
    state = str(runtime.get("state", ""))
    if not state:
        return "Ready", "calm"
    if runtime.get("on_demand"):
        return _IDLE_TEXT
    return _RUNTIME_TEXTS.get(state, (state.capitalize(), "calm"))


def trust_text(signature: str) -> str:
    """Describe who signed a plugin, from a text of the form `state: reason`."""
    state, _, reason = signature.partition(": ")
    return _TRUST_TEXTS.get(state, reason)
