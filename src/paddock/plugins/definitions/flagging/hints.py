"""A hint: what is odd, where it stands, and the words themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from paddock.core.printable import printable
from paddock.manifest.flags import Flag
from paddock.plugins.definitions.hidden import unhidden

T = TypeVar("T")

PLUGIN = "plugin"  # the kind of what a plugin says of itself as a whole
LONGEST_WORDS = 160
LONGEST_LINE = 600
EACH = 3  # hints of one flag in one definition: more say nothing new, and no definition crowds out another's
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


def few(hints: Iterable[Hint]) -> tuple[Hint, ...]:
    """Each once, and of each definition only the first `EACH` with the same flag."""
    told: Counter[tuple[str, str, Flag]] = Counter()
    kept: list[Hint] = []
    for hint in dict.fromkeys(hints):
        told[hint.kind, hint.name, hint.flag] += 1
        if told[hint.kind, hint.name, hint.flag] <= EACH:
            kept.append(hint)
    return tuple(kept)


def varied(hints: Sequence[T], most: int, flag_of: Callable[[T], str]) -> list[T]:
    """The first of them, where only so many are shown: some with each flag, so that no flag is hidden by another."""
    if len(hints) <= most:
        return list(hints)
    told: Counter[str] = Counter()
    ranked: list[tuple[int, int]] = []
    for index, hint in enumerate(hints):
        told[flag_of(hint)] += 1
        ranked.append((told[flag_of(hint)], index))
    return [hints[index] for _, index in sorted(ranked)[:most]]


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
