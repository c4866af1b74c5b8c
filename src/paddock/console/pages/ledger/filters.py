"""Which entries somebody wants to see, as an address says it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from paddock.core.errors import OperatorError
from paddock.host.ledger.reader import parse_ledger_time
from paddock.ledger.read.entries import EntryFilter
from paddock.ledger.text.entry_text import ENTRY_GROUPS, group_types, type_label

_FILTER_FIELDS: Final = ("wrong", "type", "plugin", "principal", "call", "request", "since", "until")
_MAX_FIELD_CHARS: Final = 256  # characters of one field
_MAX_SEQ: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LedgerFilters:
    """What was asked for.

    Attributes:
        given: The fields as they were typed; empty where nothing was.
        wanted: The same for the ledger.
        mistakes: By field, what is wrong with it; such a field narrows nothing.
    """

    given: Mapping[str, str]
    entry_filter: EntryFilter
    mistakes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def narrowed(self) -> bool:
        """Whether not everything is wanted."""
        return any(self.given.values())

    def address(self, path: str = "/ledger", **more: object) -> str:
        """Where the same is found, with other fields beside; `None` leaves one out."""
        named = {**{name: value for name, value in self.given.items() if value}, **more}
        query = urlencode({name: value for name, value in named.items() if value is not None})
        return f"{path}?{query}" if query else path


def parse_filters(query: Mapping[str, str]) -> LedgerFilters:
    """Reads an address. What is no time is said, and narrows nothing."""
    given = {name: query.get(name, "").strip()[:_MAX_FIELD_CHARS] for name in _FILTER_FIELDS}
    given["wrong"] = "1" if given["wrong"] else ""
    mistakes: dict[str, str] = {}
    times: dict[str, str | None] = {}
    for name in ("since", "until"):
        try:
            times[name] = parse_ledger_time(given[name] or None)
        except OperatorError:
            times[name] = None
            mistakes[name] = "Enter a date and time, such as 2030-01-31T08:00"
    kinds = group_types(given["type"])
    wanted = EntryFilter(
        type=None if kinds else given["type"] or None,
        types=kinds,
        plugin=given["plugin"] or None,
        principal=given["principal"] or None,
        call=given["call"] or None,
        request=given["request"] or None,
        since=times["since"],
        until=times["until"],
        wrong=bool(given["wrong"]),
    )
    return LedgerFilters(given, wanted, mistakes)


def parse_seq(query: Mapping[str, str], name: str) -> int | None:
    """The number of an entry that a page begins at; None where the address has none."""
    text = query.get(name, "")
    return min(int(text), _MAX_SEQ) if text.isascii() and text.isdigit() and len(text) < 20 else None


@dataclass(frozen=True, slots=True)
class EntryTypeOption:
    """Something to choose in the list of what happened."""

    value: str
    label: str


def entry_type_options(there: Collection[str], chosen: str) -> list[tuple[str, str, list[EntryTypeOption]]]:
    """Every group that has entries: its name, its title, and the types in it. What is chosen is always among them."""
    found = [
        (
            group.name,
            group.title,
            [EntryTypeOption(kind, type_label(kind)) for kind in group.templates if kind in there],
        )
        for group in ENTRY_GROUPS
    ]
    listed = [one for one in found if one[2] or one[0] == chosen]
    known = {group.name for group in ENTRY_GROUPS} | {choice.value for _, _, several in listed for choice in several}
    if chosen and chosen not in known:
        listed.append(("", "Others", [EntryTypeOption(chosen, type_label(chosen))]))
    return listed
