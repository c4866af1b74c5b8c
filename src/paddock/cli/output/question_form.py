"""A plugin's question as a terminal form: one field after another, by its schema. Pure: the caller reads and writes.

A question's text comes from the plugin: it is shown as plain text, with the plugin's name, non-printable characters
escaped.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any, Final, TypeAlias, cast

from paddock.core.printable import printable

MAX_FIELDS: Final = 50
MAX_FIELD_CHOICES: Final = 50
PROMPT_SUFFIX: Final = "> "
"""The end of every prompt."""

# Yields prompts, receives the typed line or None at the end of input; returns the answer.
FormDialog: TypeAlias = Generator[str, str | None, dict[str, Any]]

DECLINED: Final[dict[str, Any]] = {"action": "decline"}
_OMITTED: Final = object()
_YES_WORDS, _NO_WORDS = ("y", "yes", "true"), ("n", "no", "false")


class InvalidFieldInput(Exception):
    """The typed text is not a valid value, and why."""


def ask_question(question: Mapping[str, Any]) -> FormDialog:
    """Ask a question. Declined if the person types no, or their input ends."""
    heading = f"{printable(str(question['plugin']))} asks: {printable(str(question['message']), 4_000)}\n"
    url = question.get("url")
    if url is not None:
        return _ask_to_visit_url(heading + f"  it wants you to go to {printable(str(url), 2_000)}\n")
    schema: Any = question.get("schema")
    return _ask_fields(heading, _as_mapping(schema))


def describe_question(question: Mapping[str, Any]) -> list[str]:
    """Describe a question and its fields, one line each, for a person who only looks at it."""
    lines = [f"{printable(str(question['plugin']))} asks: {printable(str(question['message']), 400)}"]
    if "url" in question:
        return [*lines, f"  it wants you to go to {printable(str(question['url']), 2_000)}"]
    schema = _as_mapping(question.get("schema"))
    required = _as_list(schema.get("required"))
    for name, field in _fields(schema):
        lines.append(
            f"  {printable(name, 200)}: {_describe_field(name, _as_mapping(field), required=name in required)}"
        )
    return lines


def required_fields(question: Mapping[str, Any]) -> list[str]:
    """Return the names of the required fields; of all fields if none is required."""
    schema = _as_mapping(question.get("schema"))
    names = [name for name, _ in _fields(schema)]
    return [name for name in names if name in _as_list(schema.get("required"))] or names


def _ask_to_visit_url(heading: str) -> FormDialog:
    confirmed = yield from _ask_yes_no(f"{heading}  Did you, and did it work? yes or no {PROMPT_SUFFIX}", empty=None)
    return {"action": "accept"} if confirmed else dict(DECLINED)


def _ask_yes_no(question: str, *, empty: bool | None) -> Generator[str, str | None, bool]:
    """Ask until the person types yes or no; the end of their input is no."""
    prompt = question
    while (line := (yield prompt)) is not None:
        word = _normalize_word(line)
        if word in (*_YES_WORDS, *_NO_WORDS):
            return word in _YES_WORDS
        if not word and empty is not None:
            return empty
        prompt = (
            f"  ✗ answer yes or no; what it asks for comes after that {PROMPT_SUFFIX}"
            if empty
            else f"  ✗ answer yes or no {PROMPT_SUFFIX}"
        )
    return False


def _ask_fields(heading: str, schema: Mapping[str, Any]) -> FormDialog:
    agreed = yield from _ask_yes_no(f"{heading}  Answer it? yes or no [yes] {PROMPT_SUFFIX}", empty=True)
    if not agreed:
        return dict(DECLINED)
    content: dict[str, Any] = {}
    required = _as_list(schema.get("required"))
    for name, schema_of_field in _fields(schema):
        field = _as_mapping(schema_of_field)
        prompt = f"  {_describe_field(name, field, required=name in required)} {PROMPT_SUFFIX}"
        problem = ""
        while True:
            line = yield problem + prompt
            if line is None:
                return dict(DECLINED)
            try:
                value = _parse_line(field, line, required=name in required)
            except InvalidFieldInput as reason:
                problem = f"  ✗ {reason}\n"
                continue
            if value is not _OMITTED:
                content[name] = value
            break
    return {"action": "accept", "content": content}


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(_as_mapping(schema.get("properties")).items())[:MAX_FIELDS]


def _describe_field(name: str, field: Mapping[str, Any], *, required: bool) -> str:
    title, description = field.get("title"), field.get("description")
    parts = [printable(title if isinstance(title, str) and title else name, 200)]
    if isinstance(description, str) and description:
        parts.append(f" — {printable(description, 1_000)}")
    choices = _field_choices(field)
    choice_text = ", ".join(printable(label, 80) for _, label in choices[:MAX_FIELD_CHOICES])
    hints = [choice_text or _TYPE_TEXTS.get(str(field.get("type")), ""), "" if required else "may be left empty"]
    if any(hints):
        parts.append(f" ({'; '.join(hint for hint in hints if hint)})")
    if "default" in field:
        parts.append(f" [{printable(_format_default(field['default']), 200)}]")
    return "".join(parts)


_TYPE_TEXTS: Final = {
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "array": "several, with commas between them",
    "object": "as JSON",
}


def _parse_line(field: Mapping[str, Any], line: str, *, required: bool) -> Any:
    """Parse a typed line as a value of the field.

    Raises:
        InvalidFieldInput: it is not a valid value.
    """
    text = line.strip()
    if not text:
        if "default" in field:
            return field["default"]
        if required and field.get("type") != "string":
            raise InvalidFieldInput("this is needed")
        if not required:
            return _OMITTED
    value = _parse_value(field, text if _field_choices(field) or field.get("type") != "string" else line)
    problem = _schema_violation(field, value)
    if problem:
        raise InvalidFieldInput(problem)
    return value


def _parse_value(field: Mapping[str, Any], text: str) -> Any:
    choices = _field_choices(field)
    kind = field.get("type")
    if kind == "array" and choices:
        return [_pick_choice(choices, part.strip()) for part in text.split(",") if part.strip()]
    if choices:
        return _pick_choice(choices, text)
    if kind == "boolean":
        if text.lower() in (*_YES_WORDS, *_NO_WORDS):
            return text.lower() in _YES_WORDS
        raise InvalidFieldInput("answer yes or no")
    if kind in ("string", None):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidFieldInput(_TYPE_TEXTS.get(str(kind), "as JSON") + ", please") from None


def _pick_choice(choices: list[tuple[Any, str]], text: str) -> Any:
    for value, label in choices:
        if text in (value, label) or text == _format_default(value):
            return value
    matches = [value for value, label in choices if text.lower() in (label.lower(), _format_default(value).lower())]
    if len(matches) == 1:
        return matches[0]
    raise InvalidFieldInput("take one of those that are named")


def _field_choices(field: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Return the allowed values of a field, each with its label."""
    field = _as_mapping(field.get("items")) if field.get("type") == "array" else field
    values = _as_list(field.get("enum"))
    if values:
        names = _as_list(field.get("enumNames"))
        names = names if len(names) == len(values) else values
        return [(value, _format_default(name)) for value, name in zip(values, names, strict=True)]
    options = [_as_mapping(option) for option in _as_list(field.get("oneOf")) or _as_list(field.get("anyOf"))]
    if options and all("const" in option for option in options):
        return [(option["const"], _format_default(option.get("title", option["const"]))) for option in options]
    return []


def _schema_violation(field: Mapping[str, Any], value: Any) -> str:
    """Return what is wrong with a value by the field's schema; the whole answer is validated again later."""
    from paddock.core.errors import Invalid
    from paddock.core.schema.compile import compile_schema

    try:
        problems = compile_schema(dict(field)).errors(value)
    except Invalid:
        return ""
    return "; ".join(printable(problem.message, 400) for problem in problems[:3])


def _format_default(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _normalize_word(line: str | None) -> str:
    return (line or "").strip().lower()


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
