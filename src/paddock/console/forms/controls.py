"""Maps JSON Schemas to form controls. Pure.

Schemas are untrusted: whatever has no control of its own is edited as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from paddock.console.forms.hints import UiHints, parse_ui_hints
from paddock.core.printable import printable
from paddock.core.schema.traversal import ReferenceResolver, as_object

ControlKind: TypeAlias = Literal[
    "text", "long_text", "secret", "number", "range", "toggle", "choice", "checks", "lines", "group", "rows", "either",
    "file", "json",
]  # fmt: skip

MAX_OBJECT_FIELDS: Final = 200  # per object
MAX_CONTROLS: Final = 1_000  # per form: recursive schemas would never end
MAX_OPTIONS: Final = 500
MAX_DEPTH: Final = 6  # of nested groups; deeper values are edited as JSON
MULTILINE_MIN_CHARS: Final = 200  # a `maxLength` above it gets a multi-line control
_INPUT_TYPES: Final = {"date": "date", "email": "email", "uri": "url", "time": "time", "color": "color"}
_FILE_FORMATS: Final = ("binary", "byte", "data-url")


class ControlOption(Struct, frozen=True):
    """One selectable value. `text` is its representation in the form."""

    value: Any
    text: str
    label: str
    help: str = ""


class FormControl(Struct, frozen=True):
    """The control for one schema, with the controls nested in it."""

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
    """Build the control for a whole schema."""
    return _ControlBuilder(schema).build(schema, "", 0)


class _ControlBuilder(Struct):
    root: Mapping[str, Any]
    resolver: ReferenceResolver = field(default_factory=ReferenceResolver)
    remaining: int = MAX_CONTROLS

    def build(self, subschema: object, name: str, depth: int, *, required: bool = False) -> FormControl:
        self.remaining -= 1
        schema, nullable = self._dereference(subschema)
        hints = parse_ui_hints(schema)
        title = _title(schema, name)
        declared_type = schema.get("type")
        json_type = declared_type if isinstance(declared_type, str) else ""
        base = FormControl("json", schema, hints, title, json_type, nullable=nullable, required=required)
        if hints.widget == "json" or depth > MAX_DEPTH or self.remaining < 0:
            return base
        return self._control_of_type(base, depth) or base

    def _control_of_type(self, base: FormControl, depth: int) -> FormControl | None:
        schema = base.schema
        if options := _enum_options(schema.get("enum"), base.hints):
            return replace(base, control="choice", options=options)
        if isinstance(alternatives := schema.get("oneOf") or schema.get("anyOf"), list):
            return self._alternatives(base, cast("list[Any]", alternatives), depth)
        match base.kind:
            case "boolean":
                return replace(base, control="toggle")
            case "integer" | "number":
                is_slider = base.hints.widget == "range" and "minimum" in schema and "maximum" in schema
                return replace(base, control="range" if is_slider else "number", input="number")
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
            return None  # properties and alternatives combined have no control
        controls = tuple(self.build(choice, f"choice {number}", depth + 1) for number, choice in enumerate(choices, 1))
        return replace(base, control="either", either=controls)

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
        properties = as_object(base.schema.get("properties"))
        if not properties or len(properties) > MAX_OBJECT_FIELDS:
            return None
        if base.schema.get("patternProperties"):
            return None
        declared_required = base.schema.get("required")
        required = set(cast("list[str]", declared_required)) if isinstance(declared_required, list) else set[str]()
        fields = tuple(
            (name, self.build(subschema, name, depth + 1, required=name in required))
            for name, subschema in properties.items()
        )
        return replace(base, control="group", fields=fields)

    def _resolve_ref(self, target: str) -> Mapping[str, Any] | None:
        try:
            resolved = self.resolver.resolve(self.root, target) if target.startswith("#") else None
        except LookupError:
            return None
        return as_object(resolved)

    def _dereference(self, subschema: object) -> tuple[Mapping[str, Any], bool]:
        """Return a schema with references resolved, and whether it allows null in any of the three notations."""
        nullable = False
        seen: set[str] = set()
        schema = as_object(subschema) or {}
        for _ in range(20):
            target = schema.get("$ref")
            if isinstance(target, str):
                resolved = None if target in seen else self._resolve_ref(target)
                seen.add(target)
                if resolved is None:
                    return {}, nullable
                schema = {**resolved, **{k: v for k, v in schema.items() if k != "$ref"}}
                continue
            for keyword in ("anyOf", "oneOf"):
                non_null = _non_null_choices(schema.get(keyword))
                if non_null is not None:
                    rest = {key: value for key, value in schema.items() if key != keyword}
                    schema = {**non_null[0], **rest} if len(non_null) == 1 else {**rest, keyword: non_null}
                    nullable = True
                    break
            else:
                break
        types = schema.get("type")
        if isinstance(types, list):
            non_null_types = [type_name for type_name in cast("list[Any]", types) if type_name != "null"]
            nullable = nullable or len(non_null_types) < len(cast("list[Any]", types))
            schema = {**schema, "type": non_null_types[0] if len(non_null_types) == 1 else ""}
        return schema, nullable or schema.get("nullable") is True


def _non_null_choices(alternatives: object) -> list[dict[str, Any]] | None:
    """Return the other alternatives if null is one of several; else None."""
    if not isinstance(alternatives, list):
        return None
    choices = [schema for choice in cast("list[Any]", alternatives) if (schema := as_object(choice)) is not None]
    non_null = [choice for choice in choices if choice.get("type") != "null"]
    return non_null if non_null and len(non_null) == len(choices) - 1 else None


def _string_control(base: FormControl) -> FormControl:
    schema, text_format = base.schema, base.schema.get("format")
    if text_format in _FILE_FORMATS or schema.get("contentEncoding") == "base64":
        return replace(base, control="file", input="file")
    if text_format == "password" or schema.get("writeOnly") is True or schema.get("x-secret") is True:
        return replace(base, control="secret", input="password")
    max_length = schema.get("maxLength")
    if base.hints.widget in ("textarea", "multiline") or (
        isinstance(max_length, int) and max_length > MULTILINE_MIN_CHARS
    ):
        return replace(base, control="long_text")
    return replace(base, control="text", input=_INPUT_TYPES.get(str(text_format), "text"))


def _enum_options(values: object, hints: UiHints) -> tuple[ControlOption, ...]:
    if not isinstance(values, list) or not 0 < len(cast("list[Any]", values)) <= MAX_OPTIONS:
        return ()
    items = cast("list[Any]", values)
    if not all(isinstance(item, (str, int, float, bool)) or item is None for item in items):
        return ()
    options: list[ControlOption] = []
    for value in items:
        text = literal_text(value)
        label = hints.enum_labels.get(text) or ("—" if value is None else printable(text, 200))
        options.append(ControlOption(value, text, label, hints.enum_help.get(text, "")))
    return tuple(options)


def _const_options(choices: list[Any], hints: UiHints) -> tuple[ControlOption, ...]:
    """Return options for titled constants, as in `oneOf: [{const: a, title: …}]`."""
    options: list[ControlOption] = []
    for choice in choices:
        schema = as_object(choice) or {}
        if "const" not in schema:
            return ()
        parsed = _enum_options([schema["const"]], hints)
        if not parsed:
            return ()
        label, description = schema.get("title"), schema.get("description")
        options.append(
            ControlOption(
                parsed[0].value,
                parsed[0].text,
                printable(label, 200) if isinstance(label, str) else parsed[0].label,
                printable(description, 500) if isinstance(description, str) else parsed[0].help,
            )
        )
    return tuple(options)


def literal_text(value: Any) -> str:
    """Return a value as it is typed in a form, and as hints name it."""
    return json.dumps(value) if isinstance(value, (bool, float)) or value is None else str(value)


def _title(schema: Mapping[str, Any], name: str) -> str:
    title = schema.get("title")
    if isinstance(title, str) and title.strip():
        return printable(title, 200)
    text = name.replace("_", " ").replace("-", " ").strip()
    return printable(text[:1].upper() + text[1:], 200)
