"""Which control a schema becomes. Pure, and of strangers: whatever has no control of its own is written as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast

from paddock.console.forms.hints import UiHints, parse_ui_hints
from paddock.core.printable import printable
from paddock.core.schema.traversal import ReferenceResolver, as_object

ControlKind: TypeAlias = Literal[
    "text", "long_text", "secret", "number", "range", "toggle", "choice", "checks", "lines", "group", "rows", "either",
    "file", "json",
]  # fmt: skip

MAX_OBJECT_FIELDS: Final = 200  # of one object
MAX_CONTROLS: Final = 1_000  # of one form: schemas that refer to themselves would never end
MAX_OPTIONS: Final = 500
MAX_DEPTH: Final = 6  # groups within groups; what lies deeper is written as JSON
MULTILINE_MIN_CHARS: Final = 200  # characters from which a text gets several lines
_INPUT_TYPES: Final = {"date": "date", "email": "email", "uri": "url", "time": "time", "color": "color"}
_FILE_FORMATS: Final = ("binary", "byte", "data-url")


@dataclass(frozen=True, slots=True)
class ControlOption:
    """One value of several. `text` is how the form names it."""

    value: Any
    text: str
    label: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class FormControl:
    """One schema as a control, with the shapes inside it."""

    control: ControlKind
    schema: Mapping[str, Any]
    hints: UiHints
    title: str = ""
    kind: str = ""  # the JSON type of its values
    input: str = "text"  # the type of an `<input>`
    nullable: bool = False
    options: tuple[ControlOption, ...] = ()
    required: bool = False
    fields: tuple[tuple[str, FormControl], ...] = ()  # of a group
    each: FormControl | None = None  # of rows, or lines
    either: tuple[FormControl, ...] = ()


def build_control(schema: Mapping[str, Any]) -> FormControl:
    """A whole schema as a form."""
    return _ControlBuilder(schema).build(schema, "", 0)


@dataclass(slots=True)
class _ControlBuilder:
    root: Mapping[str, Any]
    resolver: ReferenceResolver = field(default_factory=ReferenceResolver)
    remaining: int = MAX_CONTROLS

    def build(self, given: object, name: str, depth: int, *, required: bool = False) -> FormControl:
        self.remaining -= 1
        schema, nullable = self._dereference(given)
        hints = parse_ui_hints(schema)
        title = _title(schema, name)
        kinds = schema.get("type")
        kind = kinds if isinstance(kinds, str) else ""
        base = FormControl("json", schema, hints, title, kind, nullable=nullable, required=required)
        if hints.widget == "json" or depth > MAX_DEPTH or self.remaining < 0:
            return base
        return self._control_of_type(base, depth) or base

    def _control_of_type(self, base: FormControl, depth: int) -> FormControl | None:
        schema = base.schema
        if options := _enum_options(schema.get("enum"), base.hints):
            return replace(base, control="choice", options=options)
        if isinstance(either := schema.get("oneOf") or schema.get("anyOf"), list):
            return self._alternatives(base, cast("list[Any]", either), depth)
        match base.kind:
            case "boolean":
                return replace(base, control="toggle")
            case "integer" | "number":
                slides = base.hints.widget == "range" and "minimum" in schema and "maximum" in schema
                return replace(base, control="range" if slides else "number", input="number")
            case "string":
                return _string_control(base)
            case "array":
                return self._array_control(base, depth)
            case "object":
                return self._object_control(base, depth)
            case _:
                return None

    def _alternatives(self, base: FormControl, choices: list[Any], depth: int) -> FormControl | None:
        if not 1 <= len(choices) <= MAX_OPTIONS:
            return None
        if values := _const_options(choices, base.hints):
            return replace(base, control="choice", options=values)
        if base.schema.get("properties") or len(choices) > 20:
            return None  # both at once has no form
        shapes = tuple(self.build(one, f"choice {number}", depth + 1) for number, one in enumerate(choices, 1))
        return replace(base, control="either", either=shapes)

    def _array_control(self, base: FormControl, depth: int) -> FormControl | None:
        items = base.schema.get("items")
        if as_object(items) is None:
            return None
        each = self.build(items, "", depth + 1, required=True)
        if each.control == "choice":
            return replace(base, control="checks", options=each.options, each=each)
        if each.control in ("text", "number") and not each.nullable:
            return replace(base, control="lines", each=each)
        return replace(base, control="rows", each=each)

    def _object_control(self, base: FormControl, depth: int) -> FormControl | None:
        given = as_object(base.schema.get("properties"))
        if not given or len(given) > MAX_OBJECT_FIELDS:
            return None
        if base.schema.get("patternProperties"):
            return None
        needed = base.schema.get("required")
        required = set(cast("list[str]", needed)) if isinstance(needed, list) else set[str]()
        fields = tuple(
            (name, self.build(one, name, depth + 1, required=name in required)) for name, one in given.items()
        )
        return replace(base, control="group", fields=fields)

    def _resolve_ref(self, target: str) -> Mapping[str, Any] | None:
        try:
            found = self.resolver.resolve(self.root, target) if target.startswith("#") else None
        except LookupError:
            return None
        return as_object(found)

    def _dereference(self, given: object) -> tuple[Mapping[str, Any], bool]:
        """A schema without references, and without saying in one of three ways that null will do too."""
        nullable = False
        seen: set[str] = set()
        schema = as_object(given) or {}
        for _ in range(20):
            target = schema.get("$ref")
            if isinstance(target, str):
                found = None if target in seen else self._resolve_ref(target)
                seen.add(target)
                if found is None:
                    return {}, nullable
                schema = {**found, **{k: v for k, v in schema.items() if k != "$ref"}}
                continue
            for word in ("anyOf", "oneOf"):
                others = _non_null_choices(schema.get(word))
                if others is not None:
                    rest = {key: value for key, value in schema.items() if key != word}
                    schema = {**others[0], **rest} if len(others) == 1 else {**rest, word: others}
                    nullable = True
                    break
            else:
                break
        kinds = schema.get("type")
        if isinstance(kinds, list):
            named = [one for one in cast("list[Any]", kinds) if one != "null"]
            nullable = nullable or len(named) < len(cast("list[Any]", kinds))
            schema = {**schema, "type": named[0] if len(named) == 1 else ""}
        return schema, nullable or schema.get("nullable") is True


def _non_null_choices(given: object) -> list[dict[str, Any]] | None:
    """The others, where null is one of several."""
    if not isinstance(given, list):
        return None
    choices = [found for one in cast("list[Any]", given) if (found := as_object(one)) is not None]
    others = [one for one in choices if one.get("type") != "null"]
    return others if others and len(others) == len(choices) - 1 else None


def _string_control(base: FormControl) -> FormControl:
    schema, form = base.schema, base.schema.get("format")
    if form in _FILE_FORMATS or schema.get("contentEncoding") == "base64":
        return replace(base, control="file", input="file")
    if form == "password" or schema.get("writeOnly") is True or schema.get("x-secret") is True:
        return replace(base, control="secret", input="password")
    longest = schema.get("maxLength")
    if base.hints.widget in ("textarea", "multiline") or (isinstance(longest, int) and longest > MULTILINE_MIN_CHARS):
        return replace(base, control="long_text")
    return replace(base, control="text", input=_INPUT_TYPES.get(str(form), "text"))


def _enum_options(values: object, hints: UiHints) -> tuple[ControlOption, ...]:
    if not isinstance(values, list) or not 0 < len(cast("list[Any]", values)) <= MAX_OPTIONS:
        return ()
    given = cast("list[Any]", values)
    if not all(isinstance(one, (str, int, float, bool)) or one is None for one in given):
        return ()
    found: list[ControlOption] = []
    for value in given:
        text = literal_text(value)
        label = hints.enum_labels.get(text) or ("—" if value is None else printable(text, 200))
        found.append(ControlOption(value, text, label, hints.enum_help.get(text, "")))
    return tuple(found)


def _const_options(choices: list[Any], hints: UiHints) -> tuple[ControlOption, ...]:
    """Values with titles, as in `oneOf: [{const: a, title: …}]`."""
    found: list[ControlOption] = []
    for one in choices:
        schema = as_object(one) or {}
        if "const" not in schema:
            return ()
        told = _enum_options([schema["const"]], hints)
        if not told:
            return ()
        label, words = schema.get("title"), schema.get("description")
        found.append(
            ControlOption(
                told[0].value,
                told[0].text,
                printable(label, 200) if isinstance(label, str) else told[0].label,
                printable(words, 500) if isinstance(words, str) else told[0].help,
            )
        )
    return tuple(found)


def literal_text(value: Any) -> str:
    """A value as it is typed, and as hints and forms name it."""
    return json.dumps(value) if isinstance(value, (bool, float)) or value is None else str(value)


def _title(schema: Mapping[str, Any], name: str) -> str:
    title = schema.get("title")
    if isinstance(title, str) and title.strip():
        return printable(title, 200)
    words = name.replace("_", " ").replace("-", " ").strip()
    return printable(words[:1].upper() + words[1:], 200)
