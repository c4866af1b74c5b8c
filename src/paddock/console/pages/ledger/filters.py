"""Ledger filters in the query string. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct, field

from paddock.core.errors import OperatorError
from paddock.host.ledger.reader import parse_ledger_time
from paddock.ledger.read.entries import EntryFilter
from paddock.ledger.read.failures import CALL_OUTCOMES
from paddock.ledger.text.entry_text import ENTRY_GROUPS, group_types, type_label

OUTCOMES: Final = (
    ("succeeded", "Succeeded"),
    ("failed", "Failed"),
    ("denied", "Denied"),
    ("refused", "Refused"),
    ("timed_out", "Timed out"),
    ("in_doubt", "Outcome unknown"),
)
"""Outcomes of calls to filter by; `CALL_OUTCOMES` of the ledger."""

_FILTER_FIELDS: Final = ("wrong", "outcome", "type", "plugin", "principal", "call", "request", "since", "until")
_MAX_FIELD_CHARS: Final = 256  # per field
_MAX_SEQ: Final = 2**63 - 1


class LedgerFilters(Struct, frozen=True):
    """The filters of a request.

    Attributes:
        given: The fields as typed; empty if missing.
        entry_filter: The same for the ledger.
        mistakes: Problems by field; an invalid field does not filter.
    """

    given: Mapping[str, str]
    entry_filter: EntryFilter
    mistakes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def narrowed(self) -> bool:
        """Whether any filter is set."""
        return any(self.given.values())

    def address(self, path: str = "/ledger", **overrides: object) -> str:
        """Return the URL with the same filters and additional parameters; `None` removes one."""
        params = {**{name: value for name, value in self.given.items() if value}, **overrides}
        query = urlencode({name: value for name, value in params.items() if value is not None})
        return f"{path}?{query}" if query else path


def parse_filters(query: Mapping[str, str]) -> LedgerFilters:
    """Parse the filters of a query string. Invalid times are reported, and do not filter."""
    given = {name: query.get(name, "").strip()[:_MAX_FIELD_CHARS] for name in _FILTER_FIELDS}
    given["wrong"] = "1" if given["wrong"] else ""
    given["outcome"] = given["outcome"] if given["outcome"] in CALL_OUTCOMES else ""
    mistakes: dict[str, str] = {}
    times: dict[str, str | None] = {}
    for name in ("since", "until"):
        try:
            times[name] = parse_ledger_time(given[name] or None)
        except OperatorError:
            times[name] = None
            mistakes[name] = "Enter a date and time, such as 2030-01-31T08:00"
    types = group_types(given["type"])
    entry_filter = EntryFilter(
        type=None if types else given["type"] or None,
        types=types,
        plugin=given["plugin"] or None,
        principal=given["principal"] or None,
        call=given["call"] or None,
        request=given["request"] or None,
        since=times["since"],
        until=times["until"],
        wrong=bool(given["wrong"]),
        outcome=given["outcome"] or None,
    )
    return LedgerFilters(given, entry_filter, mistakes)


def parse_seq(query: Mapping[str, str], name: str) -> int | None:
    """Return the ledger position in a query parameter; None if there is none."""
    text = query.get(name, "")
    return min(int(text), _MAX_SEQ) if text.isascii() and text.isdigit() and len(text) < 20 else None


class EntryTypeOption(Struct, frozen=True):
    """An option of the event type filter."""

    value: str
    label: str


def entry_type_options(present: Collection[str], selected: str) -> list[tuple[str, str, list[EntryTypeOption]]]:
    """Return the groups with entries: name, title and types. The selected type is always included."""
    groups = [
        (
            group.name,
            group.title,
            [
                EntryTypeOption(entry_type, type_label(entry_type))
                for entry_type in group.templates
                if entry_type in present
            ],
        )
        for group in ENTRY_GROUPS
    ]
    shown = [entry_group for entry_group in groups if entry_group[2] or entry_group[0] == selected]
    known_values = {group.name for group in ENTRY_GROUPS} | {
        option.value for _, _, options in shown for option in options
    }
    if selected and selected not in known_values:
        shown.append(("", "Others", [EntryTypeOption(selected, type_label(selected))]))
    return shown
