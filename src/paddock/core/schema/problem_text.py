"""Turns validation errors of the JSON Schema engine into texts that a person can act on.

Each error becomes a `Problem`: a dotted path, what is wrong, and what would be right. Untrusted text (field names,
values) is shortened and stripped of control characters, because it ends up on terminals.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import jsonschema_rs

from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.core.schema.traversal import PART_KEYWORDS, PathPart, ReferenceResolver, as_object, resolve_path

MAX_MESSAGE_CHARS = 300
_MAX_SHOWN_CHARS = 60
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*\Z")
_FORMAT_EXAMPLES = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "duration": "PT30S",
    "email": "name@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "12:00:00Z",
    "uri": "https://example.com/page",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}


def join_path(parts: Iterable[PathPart]) -> str:
    """`["items", 2, "name", "a b"]` as `items[2].name["a b"]`."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _IDENTIFIER.match(part) and len(part) <= 100:
            path += f".{part}" if path else part
        else:
            path += f"[{quoted(part)}]"
    return path


def join_below(prefix: str, parts: Sequence[PathPart]) -> str:
    """The path of `parts` inside something that is itself at `prefix`."""
    rest = join_path(parts)
    return f"{prefix}{'' if not prefix or not rest or rest.startswith('[') else '.'}{rest}"


def quoted(text: str) -> str:
    """A string as JSON would write it, shortened and printable."""
    return printable(
        json.dumps(text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…", ensure_ascii=False),
        400,
    )


def describe_value(value: object) -> str:
    """Describe a value: a scalar as it is, anything bigger only by its type and size."""
    match value:
        case str():
            return quoted(value)
        case dict():
            return f"an object with {len(cast('dict[str, Any]', value))} fields"
        case list():
            return f"a list of {len(cast('list[Any]', value))}"
        case int() if not isinstance(value, bool) and value.bit_length() > 200:
            return "a very large integer"
        case _:
            return printable(json.dumps(value, default=str), _MAX_SHOWN_CHARS)


def json_type(value: object) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "number"


def problems_from_error(error: jsonschema_rs.ValidationError, root: object, prefix: str = "") -> Iterator[Problem]:
    """The problems in one engine error.

    Args:
        error: The engine's error.
        root: The schema document it came from, for `x-hint`, `x-message` and suggestions.
        prefix: The path of the value itself.
    """
    message, hint = _custom_text(root, error.schema_path)
    for parts, finding, suggestion in _findings(error, root):
        did_you_mean = suggestion if suggestion.startswith("did you mean") else ""
        advice = " ".join(text for text in (did_you_mean, hint) if text) or suggestion
        yield Problem(
            join_below(prefix, parts),
            printable(message or finding, MAX_MESSAGE_CHARS),
            printable(advice, MAX_MESSAGE_CHARS),
            error.kind.name,
        )


_Finding = tuple[Sequence[PathPart], str, str]


def _findings(error: jsonschema_rs.ValidationError, root: object) -> Iterator[_Finding]:
    """(path, message, hint) for every mistake in one error."""
    path, kind = error.instance_path, jsonschema_rs.ValidationErrorKind
    match error.kind:
        case kind.Required(name):
            yield [*path, name], f"missing field {_quote_name(name)}", ""
        case kind.AdditionalProperties(names) | kind.UnevaluatedProperties(names):
            known = _known_fields(root, error.schema_path[:-1])
            for name in names:
                yield (
                    [*path, name],
                    f"unknown field {_quote_name(name)}",
                    _did_you_mean(name, known) or _known_fields_hint(known),
                )
        case kind.Type(types):
            yield (
                path,
                f"expected {_join_with_or(types)}, found {json_type(error.instance)}",
                _type_hint(types, error.instance),
            )
        case kind.Enum(options):
            close = _did_you_mean(error.instance, [text for text in options if isinstance(text, str)])
            yield (
                path,
                f"{describe_value(error.instance)} is not one of the allowed values",
                f"{close} {_allowed_values_hint(options)}".strip(),
            )
        case kind.Constant(expected):
            yield path, f"expected {describe_value(expected)}, found {describe_value(error.instance)}", ""
        case kind.AnyOf(context) | kind.OneOfNotValid(context):
            yield from _best_branch(error, context, root)
        case kind.OneOfMultipleValid():
            yield path, "fits more than one of the allowed forms", "leave out the fields that belong to the other form"
        case kind.PropertyNames(inner):
            name = str(inner.instance)
            reason = next((finding for _, finding, _ in _findings(inner, root)), "not a permitted name")
            yield [*path, name], f"field name {_quote_name(name)} is not allowed: {reason}", ""
        case kind.FalseSchema():
            field = f"field {_quote_name(path[-1])}" if path and isinstance(path[-1], str) else "a value"
            yield path, f"{field} is not allowed here", ""
        case _:
            yield (path, *_limit_text(error))


def _limit_text(error: jsonschema_rs.ValidationError) -> tuple[str, str]:
    """(message, hint) for keywords that compare a value with a limit or a shape."""
    value, kind = error.instance, jsonschema_rs.ValidationErrorKind
    size = len(value) if isinstance(value, (str, list, dict)) else 0
    match error.kind:
        case kind.Pattern(pattern):
            return f"{describe_value(value)} does not match the pattern {printable(pattern, 120)}", ""
        case kind.Format(name):
            example = _FORMAT_EXAMPLES.get(name)
            return (
                f"{describe_value(value)} is not a valid {printable(name, 40)}",
                f"for example {example}" if example else "",
            )
        case kind.Minimum(limit):
            return f"{describe_value(value)} is less than {limit}", f"use {limit} or more"
        case kind.ExclusiveMinimum(limit):
            return f"{describe_value(value)} is not greater than {limit}", f"use more than {limit}"
        case kind.Maximum(limit):
            return f"{describe_value(value)} is greater than {limit}", f"use {limit} or less"
        case kind.ExclusiveMaximum(limit):
            return f"{describe_value(value)} is not less than {limit}", f"use less than {limit}"
        case kind.MultipleOf(step):
            return f"{describe_value(value)} is not a multiple of {step}", ""
        case kind.MinLength(limit):
            return ("must not be empty", "") if size == 0 else (f"too short: {size} characters", f"at least {limit}")
        case kind.MaxLength(limit):
            return f"too long: {size} characters", f"at most {limit}"
        case kind.MinItems(limit):
            return ("must not be empty", "") if size == 0 else (f"too few items: {size}", f"at least {limit}")
        case kind.MaxItems(limit) | kind.AdditionalItems(limit):
            return f"too many items: {size}", f"at most {limit}"
        case kind.MinProperties(limit):
            return ("must not be empty", "") if size == 0 else (f"too few fields: {size}", f"at least {limit}")
        case kind.MaxProperties(limit):
            return f"too many fields: {size}", f"at most {limit}"
        case kind.UniqueItems():
            return "the same item stands here twice", "every item must be different"
        case kind.Contains():
            return "no item, or too few or too many of them, has the form that is asked for", ""
        case kind.UnevaluatedItems():
            return "has items that nothing describes", ""
        case kind.Not():
            return f"{describe_value(value)} is not allowed here", ""
        case _:
            # The engine's own text quotes the value, which may be large: shorten it first.
            return printable(error.message, MAX_MESSAGE_CHARS), ""


def _best_branch(
    error: jsonschema_rs.ValidationError, context: list[list[jsonschema_rs.ValidationError]], root: object
) -> Iterator[_Finding]:
    """Findings when no form fits: the mistakes in the form that was probably meant."""
    path, kind = error.instance_path, jsonschema_rs.ValidationErrorKind
    types: list[str] = []
    matching_type: list[list[jsonschema_rs.ValidationError]] = []
    for branch in context:
        type_errors = [e.kind.types for e in branch if isinstance(e.kind, kind.Type) and e.instance_path == path]
        if type_errors:
            types += [name for name in type_errors[0] if name not in types]
        else:
            matching_type.append(branch)
    if not matching_type:
        yield (
            path,
            f"expected {_join_with_or(types)}, found {json_type(error.instance)}",
            _type_hint(types, error.instance),
        )
        return
    # A form whose fixed fields (`type: "x"`) all match is the one the author had in mind.
    tagged = [b for b in matching_type if not any(isinstance(e.kind, (kind.Constant, kind.FalseSchema)) for e in b)]
    candidates = tagged if len(tagged) == 1 else matching_type
    if len(candidates) == 1:
        for inner in candidates[0]:
            message, hint = _custom_text(root, inner.schema_path)
            for parts, finding, suggestion in _findings(inner, root):
                yield parts, message or finding, hint or suggestion
        return
    reasons: list[str] = []
    for branch in candidates:
        reason = next((f"{finding}" for inner in branch for _, finding, _ in _findings(inner, root)), "")
        if reason and reason not in reasons:
            reasons.append(printable(reason, 80))
    yield path, f"{describe_value(error.instance)} fits none of the allowed forms", "; or ".join(reasons[:3])


def _custom_text(root: object, schema_path: Sequence[PathPart]) -> tuple[str, str]:
    """(`x-message`, `x-hint`) of the nearest schema around a failing keyword.

    A hint applies to everything inside its schema; a message only to the very value that the
    schema describes, since it says what is wrong with that one.
    """
    message = hint = ""
    current: object = root
    for step in (*schema_path, None):
        schema = as_object(current)
        if schema is not None:
            message = _text_or_empty(schema.get("x-message")) or message
            hint = _text_or_empty(schema.get("x-hint")) or hint
        if step is None:
            break
        try:
            current = resolve_path(current, [step])
        except LookupError:
            break
        if step in PART_KEYWORDS and not isinstance(current, bool):
            message = ""
    return message, hint


def _known_fields(root: object, schema_path: Sequence[PathPart]) -> list[str]:
    """Valid field names: of the schema at this path and those it is composed of."""
    try:
        pending: list[Any] = [resolve_path(root, list(schema_path))]
    except LookupError:
        return []
    resolver = ReferenceResolver()
    names: list[str] = []
    for _ in range(50):  # enough for any real composition, and a limit for a circular one
        if not pending:
            break
        schema = as_object(pending.pop())
        if schema is None:
            continue
        names += [name for name in schema.get("properties", {}) if name not in names]
        for keyword in ("allOf", "anyOf", "oneOf"):
            pending += schema.get(keyword, [])
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            try:
                pending.append(resolver.resolve(root, reference))
            except LookupError:
                continue
    return names


def _did_you_mean(value: object, known: Sequence[str]) -> str:
    """`did you mean 'x'?` when a known name is close to the value."""
    if not isinstance(value, str):
        return ""
    folded = {name.casefold().replace("-", "_"): name for name in known[:500]}
    close = difflib.get_close_matches(
        value[:_MAX_SHOWN_CHARS].casefold().replace("-", "_"), list(folded), n=1, cutoff=0.7
    )
    return f"did you mean {_quote_name(folded[close[0]])}?" if close else ""


def _known_fields_hint(known: Sequence[str]) -> str:
    return f"known fields: {printable(', '.join(known), 200)}" if 0 < len(known) <= 12 else ""


def _allowed_values_hint(options: Sequence[object]) -> str:
    values = ", ".join(
        describe_value(option) if not isinstance(option, str) else printable(option, _MAX_SHOWN_CHARS)
        for option in options[:20]
    )
    return f"allowed: {values}" + (", …" if len(options) > 20 else "")


def _type_hint(types: Sequence[str], value: object) -> str:
    if "string" in types and isinstance(value, (int, float)):
        return "put it in quotes"
    if "array" in types and isinstance(value, str):
        return "write it as a list"
    return ""


def _join_with_or(names: Sequence[str]) -> str:
    return " or ".join(names) if len(names) < 3 else ", ".join(names[:-1]) + f" or {names[-1]}"


def _quote_name(name: object) -> str:
    return f"'{printable(str(name), _MAX_SHOWN_CHARS)}'"


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
