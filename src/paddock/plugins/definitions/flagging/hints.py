"""A hint: what is odd, where it stands, and the words themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from paddock.core.printable import printable
from paddock.manifest.flags import Flag
from paddock.plugins.definitions.hidden import unhidden

PLUGIN = "plugin"  # the kind of what a plugin says of itself as a whole
LONGEST_WORDS = 160
LONGEST_LINE = 600
AROUND = 24  # characters told before and behind the words that were found


@dataclass(frozen=True, slots=True)
class Hint:
    """One odd thing in one definition."""

    kind: str  # tool, prompt, …, or `plugin`
    name: str
    flag: Flag
    where: str  # in the definition, as in `inputSchema.properties.note.description`
    words: str  # what stands there, with everything hidden written out; empty where a name says it all
    why: str

    def to_value(self) -> dict[str, Any]:
        return asdict(self) | {"flag": self.flag.value}

    def __str__(self) -> str:
        return in_words(self.to_value())


def in_words(hint: Mapping[str, Any]) -> str:
    """A hint, as `to_value` gives it, on one line."""
    named = hint["name"] if hint["kind"] == hint["name"] else f"{hint['kind']} {hint['name']}"
    words = f": “{hint['words']}”" if hint["words"] else ""
    return printable(f"{named}, {hint['where']}{words} — {hint['why']} ({hint['flag']})", LONGEST_LINE)


def excerpt(text: str, start: int, end: int) -> str:
    """The words from `start` to `end` with a little around them, fit to be shown."""
    first, last = max(0, start - AROUND), min(len(text), end + AROUND)
    piece = " ".join(unhidden(text[first : min(last, first + LONGEST_WORDS)]).split())
    return printable(f"{'…' if first else ''}{piece}{'…' if last < len(text) else ''}", LONGEST_WORDS + 40)


def flags_by_callable(hints: Iterable[Hint]) -> dict[str, frozenset[str]]:
    """The flags of each callable that has any, by the name that the gate has for it.

    Whatever is odd about the plugin as a whole, or about its server's instructions, stands under the empty name: models
    read it whichever of its tools they call.
    """
    found: dict[str, set[str]] = {}
    for hint in hints:
        found.setdefault(_called(hint), set()).add(hint.flag.value)
    return {name: frozenset(flags) for name, flags in found.items()}


def _called(hint: Hint) -> str:
    match hint.kind:
        case "tool":
            return hint.name
        case "prompt" | "resource":
            return f"{hint.kind}:{hint.name}"
        case _:
            return ""
