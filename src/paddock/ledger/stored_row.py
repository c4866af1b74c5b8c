"""How an entry lies in its table: what many entries share is stored once, and a row refers to it by number. Pure.

Facts are stored as a template and the texts that fill its gaps. Entries of calls to one callable differ in a few facts
only, so they share a template. Filling it gives the canonical JSON that is hashed, byte for byte. A gap is a control
character, which JSON never contains:

    \\x01  the next of the row's texts, which are separated by the same character
    \\x02  the row's `request`
    \\x03  the row's `call`

Rows without a template hold the whole JSON. The type of an entry and the facts by which entries are listed together
are its kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

import orjson

GAP: Final = b"\x01"
REQUEST_GAP: Final = b"\x02"
CALL_GAP: Final = b"\x03"

LISTED_FACTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "approval.answered": ("approved",),
        "approval.ended": ("state",),
        "call.ended": ("stands_for", "status", "success"),
        "call.started": ("stands_for",),
        "plugin.definition_changed": ("standing",),
    }
)
"""The facts by which entries of a type are listed: they decide whether it is a failure, and which events it stands for.

Each has few values; a kind for each combination is read whenever entries are listed.
"""
SHARED_FACTS: Final = frozenset(
    """
    name plugin plugin_id version digest method capability effects decision policies policy_version background
    tool tool_name hook word error_code error_category recovery
    approved state standing stands_for status success
    """.split()  # noqa: SIM905 - a table of words
)
"""Facts that many entries have in common. All others fill gaps: times, counts, ids, texts."""
MIN_SHARED_BYTES: Final = 48  # below, a template saves nothing
BLOCK_ROWS: Final = 1_000
"""Rows whose earliest and latest time are noted together, so that a time is found without an index over all rows."""

_ANY_GAP: Final = re.compile("([\x01\x02\x03])")
GAP_TEXT, _REQUEST_GAP_TEXT = GAP.decode(), REQUEST_GAP.decode()
_FRAGMENT, _REQUEST_FRAGMENT, _CALL_FRAGMENT = (orjson.Fragment(gap) for gap in (GAP, REQUEST_GAP, CALL_GAP))
_NULL: Final = b"null"
_EMPTY: Final[tuple[object, ...]] = ({}, [], ())  # values that most entries share, whatever the fact


COLUMN_NAMES: Final = (
    "chain", "seq", "id", "at", "kind", "plugin", "call", "request", "principal", "template", "facts", "personal",
    "salt", "commitment", "hash",
)  # fmt: skip
COLUMNS: Final = ", ".join(COLUMN_NAMES)


class SplitFacts(NamedTuple):
    """Facts as they are stored. Without a template, `values` is the whole JSON."""

    template: bytes | None
    values: bytes


def split_facts(facts: Mapping[str, Any], text: bytes, call: str | None, request: str | None) -> SplitFacts:
    """Split facts whose canonical JSON is `text`, which orjson has encoded."""
    gaps = [name for name in sorted(facts) if name not in SHARED_FACTS and facts[name] not in _EMPTY]
    # Encoding the names alone would cost more than it can save in entries that share nothing.
    if len(gaps) == len(facts) or len(text) < MIN_SHARED_BYTES:
        return SplitFacts(None, text)
    filled: dict[str, orjson.Fragment] = {}
    values: list[bytes] = []
    for name in gaps:
        value = facts[name]
        if name == "request_id" and value == request is not None:
            filled[name] = _REQUEST_FRAGMENT
        elif name == "call_id" and value == call is not None:
            filled[name] = _CALL_FRAGMENT
        else:
            filled[name] = _FRAGMENT
            values.append(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    template = orjson.dumps({**facts, **filled}, option=orjson.OPT_SORT_KEYS)
    if len(template) < MIN_SHARED_BYTES:
        return SplitFacts(None, text)
    return SplitFacts(template, GAP.join(values))


class Template:
    """A template taken apart, to be filled many times."""

    def __init__(self, text: str) -> None:
        self._parts = _ANY_GAP.split(text)  # its gaps are every other one
        gaps = self._parts[1::2]
        self._ids = [(place, gap == _REQUEST_GAP_TEXT) for place, gap in enumerate(gaps) if gap != GAP_TEXT]

    def fill(self, values: str, call: str | None, request: str | None) -> str:
        """Return the facts of a row.

        Raises:
            ValueError: the row has not as many texts as the template has gaps; it was not written so.
        """
        return self.join(values.split(GAP_TEXT) if values else [], call, request)

    def join(self, texts: list[str], call: str | None, request: str | None) -> str:
        """As `fill`, with the texts that fill the gaps, to which those of the ids are added."""
        for place, is_request in self._ids:
            value = request if is_request else call
            texts.insert(place, "null" if value is None else orjson.dumps(value).decode())
        parts = self._parts.copy()
        parts[1::2] = texts  # raises ValueError where there are more or fewer
        return "".join(parts)


@lru_cache(maxsize=1024)
def _template(text: bytes) -> Template:
    return Template(text.decode())


def fill_template(template: bytes, values: bytes, call: str | None, request: str | None) -> bytes:
    """Fill a template that is used again and again; see `Template.fill`."""
    return _template(template).fill(values.decode(), call, request).encode()


@lru_cache(maxsize=1024)
def listed_facts(kind: str, template: bytes) -> str:
    """Return the facts by which an entry with this template is listed, as canonical JSON."""
    names = LISTED_FACTS.get(kind)
    if names is None:
        return "{}"
    text = template
    for gap in (GAP, REQUEST_GAP, CALL_GAP):
        text = text.replace(gap, _NULL)
    return select_listed(kind, orjson.loads(text))


def select_listed(kind: str, facts: object) -> str:
    """Return those of an entry's facts by which entries of its type are listed, as canonical JSON.

    A value that only forged entries have counts as absent.
    """
    names = LISTED_FACTS.get(kind)
    if names is None or not isinstance(facts, dict):
        return "{}"
    given = cast("dict[str, Any]", facts)
    chosen = {name: given[name] for name in names if name in given and _is_listable(given[name])}
    return orjson.dumps(chosen, option=orjson.OPT_SORT_KEYS).decode()


def _is_listable(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(one, str) and one.isprintable() for one in cast("list[object]", value))
    return isinstance(value, bool) or (isinstance(value, str) and value.isprintable())
