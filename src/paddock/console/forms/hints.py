"""What a schema says of how it wants to be shown. Pure, and of strangers: what is no hint is no matter.

Hints stand under `x-ui` or `x_ui`, or each by itself as `x-ui.help`. `x-binding` says where a value comes from when the
call is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from paddock.core.printable import printable
from paddock.core.schema.traversal import as_object

_HINT_KEYS: Final = ("x-ui", "x_ui")
_MAX_TEXT_CHARS: Final = 1_000  # characters of a text; it is help, and no book


@dataclass(frozen=True, slots=True)
class VisibilityCondition:
    """That another field of the same object has one of these values."""

    field: str
    values: tuple[Any, ...]

    def is_met(self, siblings: Mapping[str, Any]) -> bool:
        value = siblings.get(self.field)
        # True is 1 to Python, and no JSON would say so.
        return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in self.values)


@dataclass(frozen=True, slots=True)
class UiHints:
    """How one field wants to be shown."""

    hidden: bool = False
    help: str = ""
    placeholder: str = ""
    show_when: tuple[VisibilityCondition, ...] = ()  # all of them
    enum_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    enum_help: Mapping[str, str] = field(default_factory=dict[str, str])
    widget: str = ""
    binding: str = ""

    def is_visible(self, siblings: Mapping[str, Any]) -> bool:
        """Whether it is there, given the values of the fields beside it."""
        return not self.hidden and all(one.is_met(siblings) for one in self.show_when)


def parse_ui_hints(schema: Mapping[str, Any]) -> UiHints:
    """The hints of a field's schema."""
    said: dict[str, Any] = {}
    for spelling in _HINT_KEYS:
        said |= as_object(schema.get(spelling)) or {}
        begins = f"{spelling}."
        said |= {name.removeprefix(begins): value for name, value in schema.items() if name.startswith(begins)}
    return UiHints(
        hidden=said.get("hidden") is True,
        help=_text_or_empty(said.get("help")) or _text_or_empty(schema.get("description")),
        placeholder=_text_or_empty(said.get("placeholder")),
        show_when=_parse_conditions(said.get("show_when")),
        enum_labels=_text_map(said.get("enum_labels")),
        enum_help=_text_map(said.get("enum_help")),
        widget=_text_or_empty(said.get("widget")),
        binding=_text_or_empty(schema.get("x-binding")) or _text_or_empty(schema.get("x_binding")),
    )


def _parse_conditions(said: Any) -> tuple[VisibilityCondition, ...]:
    """The three shapes: a field that equals something, a field that is one of some, or a map of fields and values."""
    given = as_object(said) or {}
    name = given.get("field")
    if isinstance(name, str) and ("equals" in given or isinstance(given.get("in"), list)):
        return (VisibilityCondition(name, tuple(given["in"]) if "equals" not in given else (given["equals"],)),)
    return tuple(
        VisibilityCondition(name, tuple(cast("list[Any]", value)) if isinstance(value, list) else (value,))
        for name, value in given.items()
    )


def _text_or_empty(said: Any) -> str:
    return printable(said, _MAX_TEXT_CHARS) if isinstance(said, str) else ""


def _text_map(said: Any) -> dict[str, str]:
    return {name: _text_or_empty(value) for name, value in (as_object(said) or {}).items() if isinstance(value, str)}
