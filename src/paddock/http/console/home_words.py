"""The first page in a few words: whether anything needs whoever looks, and what there is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from paddock.http.console.plugin_words import Told
from paddock.http.console.templates import counted

MOST_TILES: Final = 48
_RANK: Final = {"bad": 0, "busy": 1, "good": 2, "calm": 3}


@dataclass(frozen=True, slots=True)
class Summary:
    """What somebody reads first."""

    heading: str
    line: str
    mood: Literal["good", "busy", "bad"]


def summary_of(
    plugins: Sequence[Told], *, problems: int, waiting: int, more_waiting: bool, calls: int, operates: bool
) -> Summary:
    """The heading, and one calm line under it.

    Args:
        plugins: Those that they see.
        problems: How many things have to be seen to.
        waiting: How many requests they can answer, of which there may be `more_waiting`.
        more_waiting: There are more than those.
        calls: How many are under way.
        operates: Whether they see everything of their tenant.
    """
    requests = f"{waiting}{'+' if more_waiting else ''} {'request is' if waiting == 1 else 'requests are'} waiting"
    mood: Literal["good", "busy", "bad"]
    if problems:
        heading, mood = ("Something needs" if problems == 1 else f"{problems:,} things need") + " your attention", "bad"
        heading += f", and {requests} for you" if waiting else ""
    elif waiting:
        heading, mood = f"{requests} for you", "busy"
    elif not plugins:
        heading, mood = "Welcome to Paddock", "good"
    else:
        heading, mood = "All is well", "good"
    return Summary(heading, _line(plugins, calls, operates), mood)


def _line(plugins: Sequence[Told], calls: int, operates: bool) -> str:
    if not plugins:
        return ""
    running = sum(one.mood == "good" for one in plugins)
    parts = [counted(len(plugins), "plugin") + ("" if operates else " you can use")]
    if operates:
        parts[0] += f", {running:,} running"
    if calls:
        parts.append(f"{counted(calls, 'call')} under way")
    return " · ".join(parts)


def tiles(plugins: Iterable[Told]) -> tuple[list[Told], int]:
    """The plugins to show, those that need somebody first, and how many are left out."""
    ordered = sorted(plugins, key=lambda one: (_RANK[one.mood], one.name))
    return ordered[:MOST_TILES], max(0, len(ordered) - MOST_TILES)
