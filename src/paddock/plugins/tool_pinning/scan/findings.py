"""A hint: what is odd, where it stands, and the words themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from paddock.core.printable import printable
from paddock.manifest.definition_flags import DefinitionFlag
from paddock.plugins.tool_pinning.invisible_text import escape_invisible

T = TypeVar("T")

PLUGIN = "plugin"  # the kind of what a plugin says of itself as a whole
MAX_EXCERPT_CHARS = 160
MAX_FINDING_CHARS = 600
MAX_FINDINGS_PER_FLAG = (
    3  # hints of one flag in one definition: more say nothing new, and no definition crowds out another's
)
EXCERPT_CONTEXT_CHARS = 24  # characters told before and behind the words that were found


@dataclass(frozen=True, slots=True)
class ScanFinding:
    """One odd thing in one definition."""

    kind: str  # tool, prompt, …, or `plugin`
    name: str
    flag: DefinitionFlag
    where: str  # in the definition, as in `inputSchema.properties.note.description`
    words: str  # what stands there, with everything hidden written out; empty where a name says it all
    why: str

    def to_value(self) -> dict[str, Any]:
        return asdict(self) | {"flag": self.flag.value}

    def __str__(self) -> str:
        return format_finding(self.to_value())


def format_finding(hint: Mapping[str, Any]) -> str:
    """A hint, as `to_value` gives it, on one line."""
    named = hint["name"] if hint["kind"] == hint["name"] else f"{hint['kind']} {hint['name']}"
    words = f": “{hint['words']}”" if hint["words"] else ""
    return printable(f"{named}, {hint['where']}{words} — {hint['why']} ({hint['flag']})", MAX_FINDING_CHARS)


def excerpt(text: str, start: int, end: int) -> str:
    """The words from `start` to `end` with a little around them, fit to be shown."""
    first, last = max(0, start - EXCERPT_CONTEXT_CHARS), min(len(text), end + EXCERPT_CONTEXT_CHARS)
    piece = " ".join(escape_invisible(text[first : min(last, first + MAX_EXCERPT_CHARS)]).split())
    return printable(f"{'…' if first else ''}{piece}{'…' if last < len(text) else ''}", MAX_EXCERPT_CHARS + 40)


def deduplicate_findings(hints: Iterable[ScanFinding]) -> tuple[ScanFinding, ...]:
    """Each once, and of each definition only the first `EACH` with the same flag."""
    told: Counter[tuple[str, str, DefinitionFlag]] = Counter()
    kept: list[ScanFinding] = []
    for hint in dict.fromkeys(hints):
        told[hint.kind, hint.name, hint.flag] += 1
        if told[hint.kind, hint.name, hint.flag] <= MAX_FINDINGS_PER_FLAG:
            kept.append(hint)
    return tuple(kept)


def sample_by_flag(hints: Sequence[T], most: int, flag_of: Callable[[T], str]) -> list[T]:
    """The first of them, where only so many are shown: some with each flag, so that no flag is hidden by another."""
    if len(hints) <= most:
        return list(hints)
    told: Counter[str] = Counter()
    ranked: list[tuple[int, int]] = []
    for index, hint in enumerate(hints):
        told[flag_of(hint)] += 1
        ranked.append((told[flag_of(hint)], index))
    return [hints[index] for _, index in sorted(ranked)[:most]]


def flags_by_callable(hints: Iterable[ScanFinding]) -> dict[str, frozenset[str]]:
    """The flags of each callable that has any, by the name that the gate has for it.

    Whatever is odd about the plugin as a whole, or about its server's instructions, stands under the empty name: models
    read it whichever of its tools they call.
    """
    found: dict[str, set[str]] = {}
    for hint in hints:
        found.setdefault(_callable_name(hint), set()).add(hint.flag.value)
    return {name: frozenset(flags) for name, flags in found.items()}


def _callable_name(hint: ScanFinding) -> str:
    match hint.kind:
        case "tool":
            return hint.name
        case "prompt" | "resource":
            return f"{hint.kind}:{hint.name}"
        case _:
            return ""
