"""A scan finding: the flag, the location, and the quoted text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypedDict, TypeVar

from msgspec import Struct

from paddock.core.printable import printable
from paddock.manifest.definition_flags import DefinitionFlag
from paddock.plugins.tool_pinning.invisible_text import escape_invisible

T = TypeVar("T")

PLUGIN = "plugin"  # the kind of findings about the plugin as a whole
MAX_EXCERPT_CHARS = 160
MAX_FINDING_CHARS = 600
MAX_FINDINGS_PER_FLAG = 3  # in one definition: more add nothing, and must not crowd out other definitions
EXCERPT_CONTEXT_CHARS = 24  # characters shown before and after the match


class HintJson(TypedDict):
    """Suspicious text in a plugin's definitions, for a person to judge."""

    kind: Annotated[str, "The kind of definition: `tool`, `prompt`, …, or `plugin`."]
    name: str
    flag: DefinitionFlag
    where: Annotated[str, "The place in the definition."]
    words: Annotated[str, "The quoted text, with invisible characters escaped."]
    why: str


class ScanFinding(Struct, frozen=True):
    """One suspicious text or name in one definition."""

    kind: str  # tool, prompt, …, or `plugin`
    name: str
    flag: DefinitionFlag
    where: str  # in the definition, as in `inputSchema.properties.note.description`
    words: str  # the quoted text with invisible characters escaped; empty if the name says it all
    why: str

    def to_value(self) -> HintJson:
        return {
            "kind": self.kind,
            "name": self.name,
            "flag": self.flag,
            "where": self.where,
            "words": self.words,
            "why": self.why,
        }

    def __str__(self) -> str:
        return format_finding(self.to_value(), with_flag=False)


def format_finding(finding: Mapping[str, Any], *, with_flag: bool = True) -> str:
    """Format a finding, as `to_value` returns it, on one line; with the flag by which rules name it, or without."""
    label = finding["name"] if finding["kind"] == finding["name"] else f"{finding['kind']} {finding['name']}"
    quoted = f": “{finding['words']}”" if finding["words"] else ""
    flag = f" ({finding['flag']})" if with_flag else ""
    return printable(f"{label}, {finding['where']}{quoted} — {finding['why']}{flag}", MAX_FINDING_CHARS)


def excerpt(text: str, start: int, end: int) -> str:
    """Return the text from `start` to `end` with some context, made printable."""
    first, last = max(0, start - EXCERPT_CONTEXT_CHARS), min(len(text), end + EXCERPT_CONTEXT_CHARS)
    fragment = " ".join(escape_invisible(text[first : min(last, first + MAX_EXCERPT_CHARS)]).split())
    return printable(f"{'…' if first else ''}{fragment}{'…' if last < len(text) else ''}", MAX_EXCERPT_CHARS + 40)


def deduplicate_findings(findings: Iterable[ScanFinding]) -> tuple[ScanFinding, ...]:
    """Remove duplicates, and keep only the first `MAX_FINDINGS_PER_FLAG` of each flag in each definition."""
    counts: Counter[tuple[str, str, DefinitionFlag]] = Counter()
    kept: list[ScanFinding] = []
    for finding in dict.fromkeys(findings):
        counts[finding.kind, finding.name, finding.flag] += 1
        if counts[finding.kind, finding.name, finding.flag] <= MAX_FINDINGS_PER_FLAG:
            kept.append(finding)
    return tuple(kept)


def sample_by_flag(findings: Sequence[T], limit: int, flag_of: Callable[[T], str]) -> list[T]:
    """Return at most `limit` findings, some of each flag, so that no flag is hidden by another."""
    if len(findings) <= limit:
        return list(findings)
    counts: Counter[str] = Counter()
    ranked: list[tuple[int, int]] = []
    for index, finding in enumerate(findings):
        counts[flag_of(finding)] += 1
        ranked.append((counts[flag_of(finding)], index))
    return [findings[index] for _, index in sorted(ranked)[:limit]]


def flags_by_callable(findings: Iterable[ScanFinding]) -> dict[str, frozenset[str]]:
    """Return the flags of each callable that has any, by its name in the gate.

    Findings about the plugin as a whole, or its server's instructions, stand under the empty name: models read them
    whichever tool they call.
    """
    flags_by_name: dict[str, set[str]] = {}
    for finding in findings:
        flags_by_name.setdefault(_callable_name(finding), set()).add(finding.flag.value)
    return {name: frozenset(flags) for name, flags in flags_by_name.items()}


def _callable_name(finding: ScanFinding) -> str:
    match finding.kind:
        case "tool":
            return finding.name
        case "prompt" | "resource":
            return f"{finding.kind}:{finding.name}"
        case _:
            return ""
