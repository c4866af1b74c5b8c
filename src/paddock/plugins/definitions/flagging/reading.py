"""What is odd about the words of one plugin by themselves, whoever its neighbours are. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, cast

from paddock.core.schema_walk import as_object
from paddock.manifest.effects import Effect
from paddock.manifest.flags import Flag
from paddock.manifest.model import CallableSpec, Manifest, Schema, SchemaFile
from paddock.plugins.definitions.examining import PROMPT, RESOURCE, TOOL
from paddock.plugins.definitions.flagging.contradictions import contradictions
from paddock.plugins.definitions.flagging.folding import folded, mixed_scripts
from paddock.plugins.definitions.flagging.hints import PLUGIN, Hint, excerpt, few
from paddock.plugins.definitions.flagging.orders import orders_in
from paddock.plugins.definitions.flagging.unseen import LONGEST, unseen_in
from paddock.plugins.definitions.hidden import first_hidden, named, texts_in

MOST_READ = 200_000  # characters of one plugin's words; a server may list a great deal
MOST_MENTIONED = 10_000  # words of one plugin, in each of its definitions, that may be names of others' tools
LONGEST_WORD = 256  # characters of a plugin's name and a tool's together
SHORT = 100  # characters of a text that is looked through once, wherever it stands

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
_SAID = ("description", "title", "text", "instructions")
_TAGS = re.compile("[\U000e0020-\U000e007e]+")

# What is odd about a text: the flag, the words and why.
_Odd: TypeAlias = tuple[Flag, str, str]
# A schema as a value, whether it stands in the manifest or in a file of the package.
SchemaValue: TypeAlias = Callable[[Schema], Any]


@dataclass(frozen=True, slots=True)
class Words:
    """One definition: what a server listed, or a manifest declares."""

    kind: str
    name: str
    raw: Any
    effects: tuple[Effect, ...] | None = None  # what the manifest declares for it


@dataclass(frozen=True, slots=True)
class Mention:
    """A word that may be the name of somebody else's tool, and where it first stands in a definition."""

    kind: str
    name: str
    word: str
    where: str
    words: str
    marked: bool  # in quotes, or followed by what it is: a plain word counts only then


@dataclass(frozen=True, slots=True)
class OwnWords:
    """What is known of one plugin's words without looking at others."""

    plugin: str
    title: str = ""
    tools: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()
    mentions: Mapping[tuple[str, str, str], Mention] = field(default_factory=dict[tuple[str, str, str], Mention])


def read_words(plugin: str, title: str, definitions: Iterable[Words]) -> OwnWords:
    """Look one plugin's words through."""
    hints: list[Hint] = []
    mentions: dict[tuple[str, str, str], Mention] = {}
    tools: list[str] = []
    room = MOST_READ
    for one in definitions:
        if one.kind == TOOL:
            tools.append(one.name)
        for where, text in _texts(one.raw):
            room -= min(len(text), LONGEST)
            if room < 0:
                break
            hints += _of_text(one, where, text)
            _note_mentions(mentions, one, where, text)
        hints += _of_shape(one)
        if room < 0:
            why = f"says more than the {MOST_READ:,} characters that are looked through"
            hints.append(Hint(PLUGIN, plugin, Flag.HIDDEN_TEXT, "its definitions", "", why))
            break
    if len(mentions) >= MOST_MENTIONED:
        why = f"names more than the {MOST_MENTIONED:,} things that are held against the names of others"
        hints.append(Hint(PLUGIN, plugin, Flag.HIDDEN_TEXT, "its definitions", "", why))
    return OwnWords(plugin, title, tuple(tools), few(hints), mentions)


def declared_words(manifest: Manifest, value_of: SchemaValue) -> Iterator[Words]:
    """What a manifest of any dialect says to models, in the shape that servers use."""
    yield Words(PLUGIN, manifest.name, {"title": manifest.title, "description": manifest.description})
    for spec in manifest.callables:
        yield Words(TOOL, spec.name, _as_listed(spec, value_of), spec.effects)
    for prompt in manifest.prompts:
        arguments = [{"name": one.name, "description": one.description} for one in prompt.arguments]
        said = {"name": prompt.name, "description": prompt.description, "arguments": arguments, "text": prompt.text}
        yield Words(PROMPT, prompt.name, said)
    for one in manifest.resources:
        yield Words(RESOURCE, one.uri, {"uri": one.uri, "name": one.name, "description": one.description})


def _as_listed(spec: CallableSpec, value_of: SchemaValue) -> dict[str, Any]:
    schemas = {"inputSchema": spec.input_schema, "outputSchema": spec.output_schema}
    return {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        **{key: value_of(schema) for key, schema in schemas.items() if schema is not None},
        "annotations": spec.annotations,
    }


def without_files(schema: Schema) -> Any:
    """A schema as far as it stands in the manifest."""
    return None if isinstance(schema, SchemaFile) else schema


def _texts(raw: Any) -> Iterator[tuple[str, str]]:
    """Every text but pictures: an icon is a code by nature, and no model reads it as words."""
    for where, text in texts_in(raw):
        if not (where.startswith("icons[") and text.startswith(("data:image/", "https:"))):
            yield where or "its words", text


def _of_text(one: Words, where: str, text: str) -> Iterator[Hint]:
    odd = _known_odd(text) if len(text) <= SHORT else tuple(_odd(text))
    return (Hint(one.kind, one.name, flag, where, words, why) for flag, words, why in odd)


@lru_cache(maxsize=4096)
def _known_odd(text: str) -> tuple[_Odd, ...]:
    """The same for a short text: most of a definition is `string`, `type` and the like, over and over."""
    return tuple(_odd(text))


def _odd(text: str) -> Iterator[_Odd]:
    if found := first_hidden(text):
        # Tags are letters that take no room: what they spell is what a model reads.
        spelled = "".join(chr(ord(letter) - 0xE0000) for run in _TAGS.findall(text) for letter in run)
        words = excerpt(spelled, 0, len(spelled)) if spelled else excerpt(text, found.start(), found.end())
        yield Flag.HIDDEN_CHARACTERS, words, f"hides the character {named(found[0])}"
    for odd in unseen_in(text):
        yield odd.flag, excerpt(text, odd.start, odd.end), odd.why
    plain = folded(text[:LONGEST])
    for odd in orders_in(plain):
        yield odd.flag, excerpt(plain, odd.start, odd.end), odd.why


def _of_shape(one: Words) -> Iterator[Hint]:
    """What the names in a definition, and its hints about itself, say."""
    raw = as_object(one.raw) or {}
    for where, said in (("name", one.name), ("title", raw.get("title"))):
        if isinstance(said, str) and (word := mixed_scripts(said)):
            why = "mixes letters of two scripts that look alike"
            yield Hint(one.kind, one.name, Flag.LOOK_ALIKE, where, excerpt(word, 0, len(word)), why)
    schema = as_object(raw.get("inputSchema")) or {}
    for parameter in as_object(schema.get("properties")) or {}:
        if _SIDE_CHANNEL.fullmatch(parameter):
            where = f"inputSchema.properties.{parameter}"
            why = "asks by its name for the conversation, and not for what a tool needs"
            yield Hint(one.kind, one.name, Flag.SIDE_CHANNEL, where, excerpt(parameter, 0, len(parameter)), why)
    if one.kind == TOOL:
        annotations = cast("Mapping[str, Any]", as_object(raw.get("annotations")) or {})
        for why in contradictions(one.name, annotations, one.effects):
            yield Hint(one.kind, one.name, Flag.CONTRADICTION, "annotations" if annotations else "effects", "", why)


def _note_mentions(mentions: dict[tuple[str, str, str], Mention], one: Words, where: str, text: str) -> None:
    """Keep the words of what is said to models that may name somebody's tool, for each definition that has them."""
    if where != "its words" and where.rpartition(".")[2] not in _SAID:
        return
    plain = folded(text[:LONGEST])
    for marked, pattern in ((True, _QUOTED), (False, _WORD)):
        for found in pattern.finditer(plain):
            word = (found[1] or found[2] if marked else found[0]).rstrip("./-")
            key = (one.kind, one.name, word)
            known = key in mentions or len(word) > LONGEST_WORD or len(mentions) >= MOST_MENTIONED
            if not known and (marked or _distinct(word)):
                words = excerpt(plain, found.start(), found.end())
                mentions[key] = Mention(one.kind, one.name, word, where, words, marked)


def _distinct(word: str) -> bool:
    """Whether a word is a name by its looks: no ordinary word has a separator or a capital letter inside."""
    return any(sign in word.strip("-_./") for sign in "_-./") or any(
        a.islower() and b.isupper() for a, b in pairwise(word)
    )
