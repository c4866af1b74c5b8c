"""What is odd about the words of one plugin by themselves, whoever its neighbours are. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, cast

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

_IDENTIFIER_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DESTRUCTIVE_VERBS = frozenset({"delete", "destroy", "drop", "erase", "purge", "remove", "truncate", "wipe"})
_MUTATING_VERBS = _DESTRUCTIVE_VERBS | {
    *("add", "append", "commit", "create", "edit", "insert", "install", "kill", "merge", "move", "overwrite", "patch"),
    *("post", "publish", "push", "rename", "reset", "save", "send", "set", "store", "uninstall", "update", "upload"),
    "write",
}


def find_contradictions(name: str, annotations: Mapping[str, Any], effects: Sequence[Effect] | None) -> Iterator[str]:
    """Each in words.

    Args:
        name: The tool's.
        annotations: A server's own hints about it.
        effects: What a manifest declares; None where none does.
    """
    words = [word.lower() for word in _IDENTIFIER_WORDS.findall(name)]
    verb = words[0] if words else ""
    reads = annotations.get("readOnlyHint") is True
    if reads and annotations.get("destructiveHint") is True:
        yield "says that it only reads, and that it destroys"
    elif reads and effects is not None and not HARMLESS_EFFECTS.issuperset(effects):
        yield "says to clients that it only reads, and its package declares that it changes something"
    elif reads and verb in _MUTATING_VERBS:
        yield f"says that it only reads, and is called {verb!r}"
    elif effects is not None and HARMLESS_EFFECTS.issuperset(effects) and verb in _MUTATING_VERBS:
        yield f"declares that it changes nothing, and is called {verb!r}"
    elif annotations.get("destructiveHint") is False and verb in _DESTRUCTIVE_VERBS:
        yield f"says that it destroys nothing, and is called {verb!r}"


MAX_SCANNED_CHARS = 200_000  # characters of one plugin's words; a server may list a great deal
MAX_MENTIONS = 10_000  # words of one plugin, in each of its definitions, that may be names of others' tools
MAX_WORD_CHARS = 256  # characters of a plugin's name and a tool's together
MAX_CACHED_TEXT_CHARS = 100  # characters of a text that is looked through once, wherever it stands

# A parameter of such a name asks for the conversation, not for what a tool needs.
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

# What is odd about a text: the flag, the words and why.
_Suspicion: TypeAlias = tuple[DefinitionFlag, str, str]
# A schema as a value, whether it stands in the manifest or in a file of the package.
SchemaValue: TypeAlias = Callable[[Schema], Any]


@dataclass(frozen=True, slots=True)
class ScannedDefinition:
    """One definition: what a server listed, or a manifest declares."""

    kind: str
    name: str
    raw: Any
    effects: tuple[Effect, ...] | None = None  # what the manifest declares for it


@dataclass(frozen=True, slots=True)
class ToolMention:
    """A word that may be the name of somebody else's tool, and where it first stands in a definition."""

    kind: str
    name: str
    word: str
    where: str
    words: str
    quoted: bool  # in quotes, or followed by what it is: a plain word counts only then


@dataclass(frozen=True, slots=True)
class TextScanResult:
    """What is known of one plugin's words without looking at others."""

    plugin: str
    title: str = ""
    tools: tuple[str, ...] = ()
    findings: tuple[ScanFinding, ...] = ()
    mentions: Mapping[tuple[str, str, str], ToolMention] = field(
        default_factory=dict[tuple[str, str, str], ToolMention]
    )


def scan_definitions(plugin: str, title: str, definitions: Iterable[ScannedDefinition]) -> TextScanResult:
    """Look one plugin's words through."""
    hints: list[ScanFinding] = []
    mentions: dict[tuple[str, str, str], ToolMention] = {}
    tools: list[str] = []
    room = MAX_SCANNED_CHARS
    for one in definitions:
        if one.kind == TOOL:
            tools.append(one.name)
        for where, text in _model_texts(one.raw):
            room -= min(len(text), MAX_SCANNED_TEXT_CHARS)
            if room < 0:
                break
            hints += _scan_text(one, where, text)
            _note_mentions(mentions, one, where, text)
        hints += _scan_structure(one)
        if room < 0:
            why = f"says more than the {MAX_SCANNED_CHARS:,} characters that are looked through"
            hints.append(ScanFinding(PLUGIN, plugin, DefinitionFlag.HIDDEN_TEXT, "its definitions", "", why))
            break
    if len(mentions) >= MAX_MENTIONS:
        why = f"names more than the {MAX_MENTIONS:,} things that are held against the names of others"
        hints.append(ScanFinding(PLUGIN, plugin, DefinitionFlag.HIDDEN_TEXT, "its definitions", "", why))
    return TextScanResult(plugin, title, tuple(tools), deduplicate_findings(hints), mentions)


def manifest_definitions(manifest: Manifest, value_of: SchemaValue) -> Iterator[ScannedDefinition]:
    """What a manifest of any dialect says to models, in the shape that servers use."""
    yield ScannedDefinition(PLUGIN, manifest.name, {"title": manifest.title, "description": manifest.description})
    for spec in manifest.callables:
        yield ScannedDefinition(TOOL, spec.name, _tool_value(spec, value_of), spec.effects)
    for prompt in manifest.prompts:
        arguments = [{"name": one.name, "description": one.description} for one in prompt.arguments]
        said = {"name": prompt.name, "description": prompt.description, "arguments": arguments, "text": prompt.text}
        yield ScannedDefinition(PROMPT, prompt.name, said)
    for one in manifest.resources:
        yield ScannedDefinition(RESOURCE, one.uri, {"uri": one.uri, "name": one.name, "description": one.description})


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
    """A schema as far as it stands in the manifest."""
    return None if isinstance(schema, SchemaFile) else schema


def _model_texts(raw: Any) -> Iterator[tuple[str, str]]:
    """Every text but pictures: an icon is a code by nature, and no model reads it as words."""
    for where, text in iter_texts(raw):
        if not (where.startswith("icons[") and text.startswith(("data:image/", "https:"))):
            yield where or "its words", text


def _scan_text(one: ScannedDefinition, where: str, text: str) -> Iterator[ScanFinding]:
    odd = _cached_suspicions(text) if len(text) <= MAX_CACHED_TEXT_CHARS else tuple(_find_suspicions(text))
    return (ScanFinding(one.kind, one.name, flag, where, words, why) for flag, words, why in odd)


@lru_cache(maxsize=4096)
def _cached_suspicions(text: str) -> tuple[_Suspicion, ...]:
    """The same for a short text: most of a definition is `string`, `type` and the like, over and over."""
    return tuple(_find_suspicions(text))


def _find_suspicions(text: str) -> Iterator[_Suspicion]:
    if found := find_invisible(text):
        # Tags are letters that take no room: what they spell is what a model reads.
        spelled = "".join(chr(ord(letter) - 0xE0000) for run in _TAG_CHARACTERS.findall(text) for letter in run)
        words = excerpt(spelled, 0, len(spelled)) if spelled else excerpt(text, found.start(), found.end())
        yield DefinitionFlag.HIDDEN_CHARACTERS, words, f"hides the character {character_name(found[0])}"
    for odd in find_hidden_markup(text):
        yield odd.flag, excerpt(text, odd.start, odd.end), odd.why
    plain = fold_confusables(text[:MAX_SCANNED_TEXT_CHARS])
    for odd in find_injections(plain):
        yield odd.flag, excerpt(plain, odd.start, odd.end), odd.why


def _scan_structure(one: ScannedDefinition) -> Iterator[ScanFinding]:
    """What the names in a definition, and its hints about itself, say."""
    raw = as_object(one.raw) or {}
    for where, said in (("name", one.name), ("title", raw.get("title"))):
        if isinstance(said, str) and (word := find_mixed_script_word(said)):
            why = "mixes letters of two scripts that look alike"
            yield ScanFinding(one.kind, one.name, DefinitionFlag.LOOK_ALIKE, where, excerpt(word, 0, len(word)), why)
    schema = as_object(raw.get("inputSchema")) or {}
    for parameter in as_object(schema.get("properties")) or {}:
        if _SIDE_CHANNEL.fullmatch(parameter):
            where = f"inputSchema.properties.{parameter}"
            why = "asks by its name for the conversation, and not for what a tool needs"
            yield ScanFinding(
                one.kind, one.name, DefinitionFlag.SIDE_CHANNEL, where, excerpt(parameter, 0, len(parameter)), why
            )
    if one.kind == TOOL:
        annotations = cast("Mapping[str, Any]", as_object(raw.get("annotations")) or {})
        for why in find_contradictions(one.name, annotations, one.effects):
            yield ScanFinding(
                one.kind, one.name, DefinitionFlag.CONTRADICTION, "annotations" if annotations else "effects", "", why
            )


def _note_mentions(
    mentions: dict[tuple[str, str, str], ToolMention], one: ScannedDefinition, where: str, text: str
) -> None:
    """Keep the words of what is said to models that may name somebody's tool, for each definition that has them."""
    if where != "its words" and where.rpartition(".")[2] not in _TEXT_KEYS:
        return
    plain = fold_confusables(text[:MAX_SCANNED_TEXT_CHARS])
    for marked, pattern in ((True, _QUOTED), (False, _WORD)):
        for found in pattern.finditer(plain):
            word = (found[1] or found[2] if marked else found[0]).rstrip("./-")
            key = (one.kind, one.name, word)
            known = key in mentions or len(word) > MAX_WORD_CHARS or len(mentions) >= MAX_MENTIONS
            if not known and (marked or _looks_like_identifier(word)):
                words = excerpt(plain, found.start(), found.end())
                mentions[key] = ToolMention(one.kind, one.name, word, where, words, marked)


def _looks_like_identifier(word: str) -> bool:
    """Whether a word is a name by its looks: no ordinary word has a separator or a capital letter inside."""
    return any(sign in word.strip("-_./") for sign in "_-./") or any(
        a.islower() and b.isupper() for a, b in pairwise(word)
    )
