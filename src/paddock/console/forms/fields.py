"""A form as it is shown: every field with its name, its value and what is wrong with it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from paddock.console.forms.controls import ControlOption, FormControl, literal_text
from paddock.core.errors import Problem
from paddock.core.schema.compile import join_path
from paddock.core.schema.traversal import PathPart

CHOICE_SUFFIX: Final = "?"  # ends the name of what says which of several shapes is meant
ROWS_SUFFIX: Final = "#"  # and of what says that there is a list, and which of its rows there are
PRESENT_SUFFIX: Final = "!"  # and of what says that a box was there to be ticked
MAX_ROWS: Final = 100


class UnparsedText(str):
    """What somebody typed where a value was wanted, and is none: it stays in its field, to be mended there."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FormField:
    """One control with what is in it."""

    shape: FormControl
    name: str  # in what is sent; a JSON Pointer
    value: Any = None
    shown: bool = True
    problems: tuple[Problem, ...] = ()
    show_when: str = ""  # the conditions for a page that mirrors them, as JSON
    fields: tuple[FormField, ...] = ()  # of a group, of each row, or of the shape that was chosen
    chosen: int = 0  # which of several shapes

    @property
    def id(self) -> str:
        """Its place in the page."""
        return "f" + "".join(one if one.isalnum() else f"-{ord(one):x}-" for one in self.name)

    @property
    def text(self) -> str:
        """What stands in a control of one line, or several."""
        control = self.shape.control
        value: Any = self.value
        if control == "lines" and isinstance(value, list):
            return "\n".join(literal_text(one) for one in cast("list[Any]", value))
        if isinstance(value, UnparsedText):
            return str(value)
        if control == "json":
            return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
        return "" if value is None or isinstance(value, (dict, list)) else literal_text(value)

    @property
    def chosen_texts(self) -> frozenset[str]:
        """Which of several values are in it."""
        given: Any = self.value
        values = cast("list[Any]", given) if isinstance(given, list) else [given]
        return frozenset(one.text for one in self.shape.options for value in values if _is_same_value(one, value))

    @property
    def number_step(self) -> str:
        """By how much a number goes up."""
        step = self.shape.schema.get("multipleOf")
        if isinstance(step, (int, float)) and not isinstance(step, bool):
            return literal_text(step)
        return "1" if self.shape.kind == "integer" else "any"


@dataclass(frozen=True, slots=True)
class FormView:
    """A whole form."""

    root: FormField
    elsewhere: tuple[Problem, ...] = ()  # what is wrong with nothing that has a control

    @property
    def fields(self) -> tuple[FormField, ...]:
        return self.root.fields

    @property
    def wrong(self) -> int:
        """How many mistakes there are."""
        return len(self.elsewhere) + sum(len(one.problems) for one in walk_fields(self.root))


def build_form(shape: FormControl, value: Any = None, problems: Sequence[Problem] = ()) -> FormView:
    """A form with values in it, and what is wrong with them where they stand.

    Args:
        shape: What it is a form for.
        value: What is in it; what a schema gives as default where nothing is.
        problems: With paths as `join_path` writes them.
    """
    by_path: dict[str, list[Problem]] = {}
    for one in problems:
        by_path.setdefault(one.path, []).append(one)
    root = _build_field(shape, (), value, {}, by_path)
    of_all = root.problems if shape.control == "group" else ()  # which shows its fields, and nothing of its own
    return FormView(
        replace(root, problems=()) if of_all else root,
        (*of_all, *(one for left in by_path.values() for one in left)),
    )


def walk_fields(one: FormField) -> Iterable[FormField]:
    """A field and all inside it."""
    yield one
    for inner in one.fields:
        yield from walk_fields(inner)


def _build_field(
    shape: FormControl,
    path: tuple[PathPart, ...],
    value: Any,
    siblings: Mapping[str, Any],
    problems: dict[str, list[Problem]],
) -> FormField:
    if value is None and not shape.nullable:
        value = shape.schema.get("default")
    inside: tuple[FormField, ...] = ()
    chosen = 0
    match shape.control:
        case "group":
            given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            known = {name: given.get(name, one.schema.get("default")) for name, one in shape.fields}
            inside = tuple(
                _build_field(one, (*path, name), given.get(name), known, problems) for name, one in shape.fields
            )
        case "rows" if shape.each is not None:
            rows = cast("list[Any]", value)[:MAX_ROWS] if isinstance(value, list) else []
            inside = tuple(_build_field(shape.each, (*path, at), one, {}, problems) for at, one in enumerate(rows))
        case "either":
            chosen = find_alternative(shape, value)
            inside = (_build_field(shape.either[chosen], path, value, {}, problems),)
        case _:
            pass
    found = tuple(problems.pop(join_path(path), ()))
    if shape.control in ("lines", "checks", "json", "file"):  # what is wrong inside it has no place of its own
        within = [at for at in problems if at.startswith((f"{join_path(path)}[", f"{join_path(path)}.")) and path]
        found += tuple(one for at in within for one in problems.pop(at))
    conditions = [[json_pointer((*path[:-1], one.field)), list(one.values)] for one in shape.hints.show_when]
    return FormField(
        shape,
        json_pointer(path),
        value,
        shape.hints.is_visible(siblings),
        found,
        json.dumps(conditions) if conditions else "",
        inside,
        chosen,
    )


def find_alternative(shape: FormControl, value: Any) -> int:
    """Which of several shapes a value has; the first where none fits."""
    for number, one in enumerate(shape.either):
        if value is not None and _matches(one, value):
            return number
    return 0


def _matches(shape: FormControl, value: Any) -> bool:
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    wanted = kinds.get(shape.kind)
    if wanted is None or not isinstance(value, wanted) or (isinstance(value, bool) and shape.kind != "boolean"):
        return False
    if shape.control != "group":
        return True
    given = cast("dict[str, Any]", value)
    constants = {name: one.schema["const"] for name, one in shape.fields if "const" in one.schema}
    known = {name for name, _ in shape.fields}
    needed = {name for name, one in shape.fields if one.required}
    return needed <= given.keys() <= known and all(given.get(name) == one for name, one in constants.items())


def json_pointer(path: Iterable[PathPart]) -> str:
    """The JSON Pointer of a place."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _is_same_value(option: ControlOption, value: Any) -> bool:
    return option.value == value and isinstance(option.value, bool) == isinstance(value, bool)
