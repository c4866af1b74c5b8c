"""Form views: every field with its name, its value and its problems. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.console.forms.controls import ControlOption, FormControl, literal_text
from paddock.core.errors import Problem
from paddock.core.schema.compile import join_path
from paddock.core.schema.traversal import PathPart

CHOICE_SUFFIX: Final = "?"  # suffix of the input that selects one of several alternatives
ROWS_SUFFIX: Final = "#"  # suffix of the inputs that list the rows which are present
PRESENT_SUFFIX: Final = "!"  # suffix of the input that shows that a checkbox was present
MAX_ROWS: Final = 100


class UnparsedText(str):
    """Text that could not be parsed as a value: it stays in its field, to be corrected there."""

    __slots__ = ()


class FormField(Struct, frozen=True):
    """One control with its value."""

    shape: FormControl
    name: str  # input name: a JSON Pointer
    value: Any = None
    shown: bool = True
    problems: tuple[Problem, ...] = ()
    show_when: str = ""  # visibility conditions for the page's script, as JSON
    fields: tuple[FormField, ...] = ()  # of a group, of each row, or of the selected alternative
    chosen: int = 0  # index of the selected alternative
    id_prefix: str = "f"  # tells the element ids of two forms on one page apart

    @property
    def id(self) -> str:
        """The element id on the page."""
        return self.id_prefix + "".join(char if char.isalnum() else f"-{ord(char):x}-" for char in self.name)

    @property
    def text(self) -> str:
        """The text in a single-line or multi-line control."""
        control = self.shape.control
        value: Any = self.value
        if control == "lines" and isinstance(value, list):
            return "\n".join(literal_text(item) for item in cast("list[Any]", value))
        if isinstance(value, UnparsedText):
            return str(value)
        if control == "json":
            return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
        return "" if value is None or isinstance(value, (dict, list)) else literal_text(value)

    @property
    def chosen_texts(self) -> frozenset[str]:
        """The texts of the selected options."""
        current: Any = self.value
        values = cast("list[Any]", current) if isinstance(current, list) else [current]
        return frozenset(
            option.text for option in self.shape.options for value in values if _is_same_value(option, value)
        )

    @property
    def number_step(self) -> str:
        """The `step` attribute of a number input."""
        step = self.shape.schema.get("multipleOf")
        if isinstance(step, (int, float)) and not isinstance(step, bool):
            return literal_text(step)
        return "1" if self.shape.kind == "integer" else "any"


class FormView(Struct, frozen=True):
    """A whole form."""

    root: FormField
    elsewhere: tuple[Problem, ...] = ()  # problems that belong to no control

    @property
    def fields(self) -> tuple[FormField, ...]:
        return self.root.fields

    @property
    def wrong(self) -> int:
        """The number of problems."""
        return len(self.elsewhere) + sum(len(form_field.problems) for form_field in walk_fields(self.root))


def build_form(
    shape: FormControl, value: Any = None, problems: Sequence[Problem] = (), id_prefix: str = "f"
) -> FormView:
    """Build a form with values and the problems of each field.

    Args:
        shape: The control of the whole form.
        value: Its values; missing ones take the schema's default.
        problems: With paths as `join_path` writes them.
        id_prefix: What the element ids begin with.
    """
    by_path: dict[str, list[Problem]] = {}
    for problem in problems:
        by_path.setdefault(problem.path, []).append(problem)
    root = _with_prefix(_build_field(shape, (), value, {}, by_path), id_prefix)
    root_problems = root.problems if shape.control == "group" else ()  # a group shows only its fields' problems
    return FormView(
        replace(root, problems=()) if root_problems else root,
        (*root_problems, *(problem for remaining in by_path.values() for problem in remaining)),
    )


def _with_prefix(form_field: FormField, id_prefix: str) -> FormField:
    if form_field.id_prefix == id_prefix:
        return form_field
    fields = tuple(_with_prefix(inner, id_prefix) for inner in form_field.fields)
    return replace(form_field, id_prefix=id_prefix, fields=fields)


def walk_fields(form_field: FormField) -> Iterable[FormField]:
    """Yield a field and all fields inside it."""
    yield form_field
    for inner in form_field.fields:
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
    children: tuple[FormField, ...] = ()
    chosen = 0
    match shape.control:
        case "group":
            values = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            with_defaults = {name: values.get(name, child.schema.get("default")) for name, child in shape.fields}
            children = tuple(
                _build_field(child, (*path, name), values.get(name), with_defaults, problems)
                for name, child in shape.fields
            )
        case "rows" if shape.each is not None:
            rows = cast("list[Any]", value)[:MAX_ROWS] if isinstance(value, list) else []
            children = tuple(
                _build_field(shape.each, (*path, index), row, {}, problems) for index, row in enumerate(rows)
            )
        case "either":
            chosen = find_alternative(shape, value)
            children = (_build_field(shape.either[chosen], path, value, {}, problems),)
        case _:
            pass
    field_problems = tuple(problems.pop(join_path(path), ()))
    if shape.control in ("lines", "checks", "json", "file"):  # nested problems have no field of their own
        prefixes = (f"{join_path(path)}[", f"{join_path(path)}.")
        nested = [problem_path for problem_path in problems if problem_path.startswith(prefixes) and path]
        field_problems += tuple(problem for problem_path in nested for problem in problems.pop(problem_path))
    conditions = [[json_pointer((*path[:-1], one.field)), list(one.values)] for one in shape.hints.show_when]
    return FormField(
        shape,
        json_pointer(path),
        value,
        shape.hints.is_visible(siblings),
        field_problems,
        json.dumps(conditions) if conditions else "",
        children,
        chosen,
    )


def find_alternative(shape: FormControl, value: Any) -> int:
    """Return the index of the alternative that a value matches; 0 if none does."""
    for index, alternative in enumerate(shape.either):
        if value is not None and _matches(alternative, value):
            return index
    return 0


def _matches(shape: FormControl, value: Any) -> bool:
    python_types = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
    }
    expected = python_types.get(shape.kind)
    if expected is None or not isinstance(value, expected) or (isinstance(value, bool) and shape.kind != "boolean"):
        return False
    if shape.control != "group":
        return True
    fields = cast("dict[str, Any]", value)
    constants = {name: control.schema["const"] for name, control in shape.fields if "const" in control.schema}
    known = {name for name, _ in shape.fields}
    required = {name for name, control in shape.fields if control.required}
    return required <= fields.keys() <= known and all(
        fields.get(name) == control for name, control in constants.items()
    )


def json_pointer(path: Iterable[PathPart]) -> str:
    """Return the JSON Pointer of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _is_same_value(option: ControlOption, value: Any) -> bool:
    return option.value == value and isinstance(option.value, bool) == isinstance(value, bool)
