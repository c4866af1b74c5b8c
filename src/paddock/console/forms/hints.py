"""UI hints in schemas. Pure. Schemas are untrusted: malformed hints are ignored.

Hints are under `x-ui` or `x_ui`, or one by one as in `x-ui.help`. `x-binding` names the source of a value that is
filled in when the call is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct, field

from paddock.core.printable import printable
from paddock.core.schema.traversal import as_object

_HINT_KEYS: Final = ("x-ui", "x_ui")
_MAX_TEXT_CHARS: Final = 1_000  # per hint


class VisibilityCondition(Struct, frozen=True):
    """Requires another field of the same object to have one of these values."""

    field: str
    values: tuple[Any, ...]

    def is_met(self, siblings: Mapping[str, Any]) -> bool:
        value = siblings.get(self.field)
        # `True == 1` in Python, but not in JSON.
        return any(
            value == expected and isinstance(value, bool) == isinstance(expected, bool) for expected in self.values
        )


class UiHints(Struct, frozen=True):
    """How one field is to be shown."""

    hidden: bool = False
    help: str = ""
    placeholder: str = ""
    show_when: tuple[VisibilityCondition, ...] = ()  # all must be met
    enum_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    enum_help: Mapping[str, str] = field(default_factory=dict[str, str])
    widget: str = ""
    binding: str = ""

    def is_visible(self, siblings: Mapping[str, Any]) -> bool:
        """Return whether the field is visible, given the values of its siblings."""
        return not self.hidden and all(condition.is_met(siblings) for condition in self.show_when)


def parse_ui_hints(schema: Mapping[str, Any]) -> UiHints:
    """Parse the hints of a field's schema."""
    hints: dict[str, Any] = {}
    for spelling in _HINT_KEYS:
        hints |= as_object(schema.get(spelling)) or {}
        prefix = f"{spelling}."
        hints |= {name.removeprefix(prefix): value for name, value in schema.items() if name.startswith(prefix)}
    return UiHints(
        hidden=hints.get("hidden") is True,
        help=_text_or_empty(hints.get("help")) or _text_or_empty(schema.get("description")),
        placeholder=_text_or_empty(hints.get("placeholder")),
        show_when=_parse_conditions(hints.get("show_when")),
        enum_labels=_text_map(hints.get("enum_labels")),
        enum_help=_text_map(hints.get("enum_help")),
        widget=_text_or_empty(hints.get("widget")),
        binding=_text_or_empty(schema.get("x-binding")) or _text_or_empty(schema.get("x_binding")),
    )


def _parse_conditions(condition: Any) -> tuple[VisibilityCondition, ...]:
    """Parse the three notations: field and `equals`, field and `in`, or a map of fields to values."""
    fields = as_object(condition) or {}
    name = fields.get("field")
    if isinstance(name, str) and ("equals" in fields or isinstance(fields.get("in"), list)):
        return (VisibilityCondition(name, tuple(fields["in"]) if "equals" not in fields else (fields["equals"],)),)
    return tuple(
        VisibilityCondition(name, tuple(cast("list[Any]", value)) if isinstance(value, list) else (value,))
        for name, value in fields.items()
    )


def _text_or_empty(value: Any) -> str:
    return printable(value, _MAX_TEXT_CHARS) if isinstance(value, str) else ""


def _text_map(mapping: Any) -> dict[str, str]:
    return {name: _text_or_empty(value) for name, value in (as_object(mapping) or {}).items() if isinstance(value, str)}
