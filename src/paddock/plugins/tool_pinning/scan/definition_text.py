"""Scans the texts of one plugin by themselves, independent of other plugins. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from paddock.core.schema.traversal import as_object
from paddock.manifest.definition_flags import DefinitionFlag
from paddock.manifest.effects import HARMLESS_EFFECTS, Effect
from paddock.manifest.model import CallableSpec, Manifest, Schema, SchemaFile
from paddock.plugins.tool_pinning.invisible_text import character_name, find_invisible, iter_texts
from paddock.plugins.tool_pinning.normalize import PROMPT, RESOURCE, TOOL
from paddock.plugins.tool_pinning.scan.confusables import find_mixed_script_word, fold_confusables
from paddock.plugins.tool_pinning.scan.findings import PLUGIN, ScanFinding, deduplicate_findings, excerpt
from paddock.plugins.tool_pinning.scan.injection_patterns import (
    MAX_SCANNED_TEXT_CHARS,
    find_hidden_markup,
    find_injections,
)

MAX_SCANNED_CHARS = 200_000  # of one plugin's texts; a server may list a great deal
MAX_MENTIONS = 10_000  # words in all definitions of one plugin that may be names of other tools
MAX_WORD_CHARS = 256  # of a plugin's and a tool's name together
MAX_CACHED_TEXT_CHARS = 100  # texts up to this length are cached

# A parameter with such a name asks for the conversation, not for what a tool needs.
_SIDE_CHANNEL = re.compile(
    r"side[-_ ]?notes?|(?:chat|conversation|message|tool[-_ ]?call)s?[-_ ]?(?:history|log|transcript|so[-_ ]far)"
    r"|(?:full|whole|entire|previous|all)[-_ ]?(?:conversation|context|messages|prompt)s?|conversation"
    r"|system[-_ ]?prompt|chain[-_ ]?of[-_ ]?thought|env(?:ironment)?[-_ ]?(?:vars?|variables)"
    r"|(?:available[-_ ]?)?tools?[-_ ]?(?:list|names)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_QUOTED = re.compile(
    r"[`'\"“‘]([A-Za-z0-9][A-Za-z0-9_./-]{1,127})[`'\"”’]|\b([a-z0-9][\w-]*) (?:tool|function|plugin|mcp server)\b"
)
_TEXT_KEYS = ("description", "title", "text", "instructions")
_TAG_CHARACTERS = re.compile("[\U000e0020-\U000e007e]+")

# A suspicion about a text: flag, excerpt and reason.
_Suspicion: TypeAlias = tuple[DefinitionFlag, str, str]
# Loads a schema's value, from the manifest or a file of the package.
SchemaValue: TypeAlias = Callable[[Schema], Any]


class ScannedDefinition(Struct, frozen=True):
    """A definition to scan: listed by a server, or declared in a manifest."""

    kind: str
    name: str
    raw: Any
    effects: tuple[Effect, ...] | None = None  # declared in the manifest


class ToolMention(Struct, frozen=True):
    """A word that may name another plugin's tool, and where it first occurs in a definition."""

    kind: str
    name: str
    word: str
    where: str
    words: str
    quoted: bool  # in quotes, or followed by "tool" or the like: a plain word counts only then


class TextScanResult(Struct, frozen=True):
    """The scan result of one plugin's texts, without comparing it with others."""

    plugin: str
    title: str = ""
    tools: tuple[str, ...] = ()
    findings: tuple[ScanFinding, ...] = ()
    mentions: Mapping[tuple[str, str, str], ToolMention] = field(
        default_factory=dict[tuple[str, str, str], ToolMention]
    )


def scan_definitions(plugin: str, title: str, definitions: Iterable[ScannedDefinition]) -> TextScanResult:
    """Scan the texts of one plugin."""
    findings: list[ScanFinding] = []
    mentions: dict[tuple[str, str, str], ToolMention] = {}
    tools: list[str] = []
    chars_left = MAX_SCANNED_CHARS
    for definition in definitions:
        if definition.kind == TOOL:
            tools.append(definition.name)
        for where, text in _model_texts(definition.raw):
            chars_left -= min(len(text), MAX_SCANNED_TEXT_CHARS)
            if chars_left < 0:
                break
            findings += _scan_text(definition, where, text)
            _note_mentions(mentions, definition, where, text)
        findings += _scan_structure(definition)
        if chars_left < 0:
            reason = f"says more than the {MAX_SCANNED_CHARS:,} characters that are looked through"
            findings.append(ScanFinding(PLUGIN, plugin, DefinitionFlag.HIDDEN_TEXT, "its definitions", "", reason))
            break
    if len(mentions) >= MAX_MENTIONS:
        reason = f"names more than the {MAX_MENTIONS:,} things that are held against the names of others"
        findings.append(ScanFinding(PLUGIN, plugin, DefinitionFlag.HIDDEN_TEXT, "its definitions", "", reason))
    return TextScanResult(plugin, title, tuple(tools), deduplicate_findings(findings), mentions)


def manifest_definitions(manifest: Manifest, value_of: SchemaValue) -> Iterator[ScannedDefinition]:
    """Yield the definitions of a manifest of any dialect, in the shape that servers use."""
    yield ScannedDefinition(PLUGIN, manifest.name, {"title": manifest.title, "description": manifest.description})
    for spec in manifest.callables:
        yield ScannedDefinition(TOOL, spec.name, _tool_value(spec, value_of), spec.effects)
    for prompt in manifest.prompts:
        arguments = [{"name": resource.name, "description": resource.description} for resource in prompt.arguments]
        value = {"name": prompt.name, "description": prompt.description, "arguments": arguments, "text": prompt.text}
        yield ScannedDefinition(PROMPT, prompt.name, value)
    for resource in manifest.resources:
        yield ScannedDefinition(
            RESOURCE, resource.uri, {"uri": resource.uri, "name": resource.name, "description": resource.description}
        )


def _tool_value(spec: CallableSpec, value_of: SchemaValue) -> dict[str, Any]:
    schemas = {"inputSchema": spec.input_schema, "outputSchema": spec.output_schema}
    return {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        **{key: value_of(schema) for key, schema in schemas.items() if schema is not None},
        "annotations": spec.annotations,
    }


def inline_schema(schema: Schema) -> Any:
    """Return a schema if it stands in the manifest itself."""
    return None if isinstance(schema, SchemaFile) else schema


def _model_texts(raw: Any) -> Iterator[tuple[str, str]]:
    """Yield every text except icons: their data is encoded by nature, and models do not read it."""
    for where, text in iter_texts(raw):
        if not (where.startswith("icons[") and text.startswith(("data:image/", "https:"))):
            yield where or "its words", text


def _scan_text(definition: ScannedDefinition, where: str, text: str) -> Iterator[ScanFinding]:
    suspicions = _cached_suspicions(text) if len(text) <= MAX_CACHED_TEXT_CHARS else tuple(_find_suspicions(text))
    return (
        ScanFinding(definition.kind, definition.name, flag, where, quoted, reason)
        for flag, quoted, reason in suspicions
    )


@lru_cache(maxsize=4096)
def _cached_suspicions(text: str) -> tuple[_Suspicion, ...]:
    """Cache the suspicions of a short text: `string`, `type` and the like occur over and over."""
    return tuple(_find_suspicions(text))


def _find_suspicions(text: str) -> Iterator[_Suspicion]:
    if match := find_invisible(text):
        # Tag characters are invisible letters; a model reads what they spell.
        spelled = "".join(chr(ord(letter) - 0xE0000) for run in _TAG_CHARACTERS.findall(text) for letter in run)
        quoted = excerpt(spelled, 0, len(spelled)) if spelled else excerpt(text, match.start(), match.end())
        yield DefinitionFlag.HIDDEN_CHARACTERS, quoted, f"hides the character {character_name(match[0])}"
    for pattern_match in find_hidden_markup(text):
        yield pattern_match.flag, excerpt(text, pattern_match.start, pattern_match.end), pattern_match.why
    plain = fold_confusables(text[:MAX_SCANNED_TEXT_CHARS])
    for pattern_match in find_injections(plain):
        yield pattern_match.flag, excerpt(plain, pattern_match.start, pattern_match.end), pattern_match.why


def _scan_structure(definition: ScannedDefinition) -> Iterator[ScanFinding]:
    """Scan the names in a definition and its hints about itself."""
    raw = as_object(definition.raw) or {}
    for where, text in (("name", definition.name), ("title", raw.get("title"))):
        if isinstance(text, str) and (word := find_mixed_script_word(text)):
            reason = "mixes letters of two scripts that look alike"
            yield ScanFinding(
                definition.kind, definition.name, DefinitionFlag.LOOK_ALIKE, where, excerpt(word, 0, len(word)), reason
            )
    schema = as_object(raw.get("inputSchema")) or {}
    for parameter in as_object(schema.get("properties")) or {}:
        if _SIDE_CHANNEL.fullmatch(parameter):
            where = f"inputSchema.properties.{parameter}"
            reason = "asks by its name for the conversation, and not for what a tool needs"
            yield ScanFinding(
                definition.kind,
                definition.name,
                DefinitionFlag.SIDE_CHANNEL,
                where,
                excerpt(parameter, 0, len(parameter)),
                reason,
            )
    if definition.kind == TOOL:
        annotations = cast("Mapping[str, Any]", as_object(raw.get("annotations")) or {})
        for reason in find_contradictions(definition.name, annotations, definition.effects):
            yield ScanFinding(
                definition.kind,
                definition.name,
                DefinitionFlag.CONTRADICTION,
                "annotations" if annotations else "effects",
                "",
                reason,
            )


def _note_mentions(
    mentions: dict[tuple[str, str, str], ToolMention], definition: ScannedDefinition, where: str, text: str
) -> None:
    """Note the words in model-facing texts that may name a tool, for each definition."""
    if where != "its words" and where.rpartition(".")[2] not in _TEXT_KEYS:
        return
    plain = fold_confusables(text[:MAX_SCANNED_TEXT_CHARS])
    for quoted, pattern in ((True, _QUOTED), (False, _WORD)):
        for match in pattern.finditer(plain):
            word = (match[1] or match[2] if quoted else match[0]).rstrip("./-")
            key = (definition.kind, definition.name, word)
            skip = key in mentions or len(word) > MAX_WORD_CHARS or len(mentions) >= MAX_MENTIONS
            if not skip and (quoted or _looks_like_identifier(word)):
                context = excerpt(plain, match.start(), match.end())
                mentions[key] = ToolMention(definition.kind, definition.name, word, where, context, quoted)


def _looks_like_identifier(word: str) -> bool:
    """Whether a word looks like a name: ordinary words have no separator or capital letter inside."""
    return any(sign in word.strip("-_./") for sign in "_-./") or any(
        a.islower() and b.isupper() for a, b in pairwise(word)
    )


_IDENTIFIER_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DESTRUCTIVE_VERBS = frozenset({"delete", "destroy", "drop", "erase", "purge", "remove", "truncate", "wipe"})
_MUTATING_VERBS = _DESTRUCTIVE_VERBS | {
    *("add", "append", "commit", "create", "edit", "insert", "install", "kill", "merge", "move", "overwrite", "patch"),
    *("post", "publish", "push", "rename", "reset", "save", "send", "set", "store", "uninstall", "update", "upload"),
    "write",
}


def find_contradictions(name: str, annotations: Mapping[str, Any], effects: Sequence[Effect] | None) -> Iterator[str]:
    """Yield descriptions of contradictions between a tool's name, hints and declared effects.

    Args:
        name: The tool's name.
        annotations: The server's own hints about it.
        effects: The effects that a manifest declares; None if none does.
    """
    name_words = [word.lower() for word in _IDENTIFIER_WORDS.findall(name)]
    verb = name_words[0] if name_words else ""
    read_only = annotations.get("readOnlyHint") is True
    if read_only and annotations.get("destructiveHint") is True:
        yield "says that it only reads, and that it destroys"
    elif read_only and effects is not None and not HARMLESS_EFFECTS.issuperset(effects):
        yield "says to clients that it only reads, and its package declares that it changes something"
    elif read_only and verb in _MUTATING_VERBS:
        yield f"says that it only reads, and is called {verb!r}"
    elif effects is not None and HARMLESS_EFFECTS.issuperset(effects) and verb in _MUTATING_VERBS:
        yield f"declares that it changes nothing, and is called {verb!r}"
    elif annotations.get("destructiveHint") is False and verb in _DESTRUCTIVE_VERBS:
        yield f"says that it destroys nothing, and is called {verb!r}"
