"""Inputs of a call without the secrets in them, as they are kept and shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

import orjson

from paddock.core.schema.traversal import ReferenceResolver, object_or_empty

REDACTED: Final = "[redacted]"
_MAX_DEPTH: Final = 40
_MAX_SCHEMAS: Final = 50  # that apply to one value
_UNKNOWN: Final[Mapping[str, Any]] = {"writeOnly": True, "additionalProperties": {"writeOnly": True}}
_SECRET_NAME = re.compile(
    r"(^|[_\-. ])(password|passwd|passphrase|secret|token|api[_\-]?key|apikey|credentials?|authorization|cookie|"
    r"private[_\-]?key|client[_\-]?secret|access[_\-]?key|otp|pin)$",
    re.IGNORECASE,
)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


# Both find too much rather than too little: they save the walk where there is certainly nothing.
_MAYBE_NAMED = re.compile(rb"passw|passphrase|secret|token|key|credential|authorization|cookie|otp|pin", re.IGNORECASE)
_MAYBE_DECLARED = re.compile(rb"password|writeOnly|x-secret|x-binding|x_binding")


def may_declare_secrets(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema may mark any value as a secret."""
    try:
        return _MAYBE_DECLARED.search(orjson.dumps(schema)) is not None
    except TypeError:  # it cannot be encoded
        return True


def may_name_secrets(inputs: bytes) -> bool:
    """Return whether inputs, as JSON, may have a value that is named like a secret."""
    # A name may be written with escapes.
    return _MAYBE_NAMED.search(inputs) is not None or b"\\u" in inputs


def redact_inputs(inputs: Any, schema: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return the inputs with each secret replaced, and the paths of what was replaced.

    A value is a secret if its schema says so (`format: password`, `writeOnly`, `x-secret`, a binding to a secret), or
    if its name does: an author may have forgotten to say it.
    """
    redactor = _Redactor(schema)
    return redactor.redact(inputs, [schema], "", 0), redactor.paths


def without_paths(inputs: Any, paths: Sequence[str]) -> Any:
    """Return redacted inputs without the values at these paths, to be entered again."""
    return _without(inputs, frozenset(paths), "")


def _without(value: Any, paths: frozenset[str], path: str) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        inner = {name: f"{path}.{name}" if path else name for name in fields}
        return {name: _without(part, paths, inner[name]) for name, part in fields.items() if inner[name] not in paths}
    if isinstance(value, list):
        items = [(f"{path}.{index}", part) for index, part in enumerate(cast("list[Any]", value))]
        return [_without(part, paths, inner) for inner, part in items if inner not in paths]
    return value


class _Redactor:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._resolver = ReferenceResolver()
        self.paths: list[str] = []

    def redact(self, value: Any, schemas: Sequence[Mapping[str, Any]], path: str, depth: int) -> Any:
        applying = list(self._applying(schemas))
        return self._redact(value, applying, any(map(_declares_secret, applying)), path, depth)

    def _redact(self, value: Any, applying: Sequence[Mapping[str, Any]], is_secret: bool, path: str, depth: int) -> Any:
        if depth > _MAX_DEPTH or (path and value is not None and is_secret):
            self.paths.append(path)
            return REDACTED
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {name: self._redact_field(name, part, applying, path, depth) for name, part in fields.items()}
        if isinstance(value, list):
            # All of them for each item, whose position is of no interest; looked up once for a long list.
            items = list(self._applying([one for schema in applying for one in _item_schemas(schema)]))
            are_secret = any(map(_declares_secret, items))
            return [
                self._redact(part, items, are_secret, f"{path}.{index}", depth + 1)
                for index, part in enumerate(cast("list[Any]", value))
            ]
        return value

    def _redact_field(self, name: str, value: Any, schemas: Sequence[Mapping[str, Any]], path: str, depth: int) -> Any:
        inner = f"{path}.{name}" if path else name
        is_empty = value is None or isinstance(value, (bool, float)) or value in ("", [], {})
        if not is_empty and _SECRET_NAME.search(_CAMEL_CASE.sub("_", name)):
            self.paths.append(inner)
            return REDACTED
        declared = [object_or_empty(object_or_empty(schema.get("properties")).get(name)) for schema in schemas]
        extra = [object_or_empty(schema.get("additionalProperties")) for schema in schemas]
        matching = [
            object_or_empty(one)
            for schema in schemas
            for one in object_or_empty(schema.get("patternProperties")).values()
        ]
        return self.redact(value, [one for one in (*declared, *extra, *matching) if one], inner, depth + 1)

    def _applying(self, schemas: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the schemas with those that they refer to or combine."""
        waiting: list[Mapping[str, Any]] = [*schemas]
        seen: set[int] = set()  # by identity: all are parts of one document, and some refer to themselves
        while waiting and len(seen) < _MAX_SCHEMAS:
            schema = waiting.pop()
            if not schema or id(schema) in seen:
                continue
            seen.add(id(schema))
            yield schema
            reference = schema.get("$ref")
            if isinstance(reference, str) and reference.startswith("#"):
                with suppress(LookupError):
                    waiting.append(object_or_empty(self._resolver.resolve(self._root, reference)))
            waiting += _same_value_schemas(schema)
        if waiting:
            yield _UNKNOWN  # one that was not looked at may say that it is a secret


def _same_value_schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a schema that may apply to the same value."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword)
        if isinstance(parts, list):
            yield from map(object_or_empty, cast("list[Any]", parts))
    for keyword in ("if", "then", "else"):
        if part := object_or_empty(schema.get(keyword)):
            yield part
    yield from map(object_or_empty, object_or_empty(schema.get("dependentSchemas")).values())


def _item_schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of the items of a list."""
    for keyword in ("items", "prefixItems"):
        parts = schema.get(keyword)
        each = cast("list[Any]", parts) if isinstance(parts, list) else [parts]
        yield from filter(None, map(object_or_empty, each))


def _declares_secret(schema: Mapping[str, Any]) -> bool:
    return (
        schema.get("format") == "password"
        or schema.get("writeOnly") is True
        or schema.get("x-secret") is True
        or "secret" in (schema.get("x-binding"), schema.get("x_binding"))
    )
