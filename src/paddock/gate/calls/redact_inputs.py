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
        if depth > _MAX_DEPTH:
            self.paths.append(path)
            return REDACTED
        applying = list(self._applying(schemas))
        if path and value is not None and any(map(_declares_secret, applying)):
            self.paths.append(path)
            return REDACTED
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {name: self._redact_field(name, part, applying, path, depth) for name, part in fields.items()}
        if isinstance(value, list):
            items = [object_or_empty(schema.get("items")) for schema in applying]
            return [
                self.redact(part, items, f"{path}.{index}", depth + 1)
                for index, part in enumerate(cast("list[Any]", value))
            ]
        return value

    def _redact_field(self, name: str, value: Any, schemas: list[Mapping[str, Any]], path: str, depth: int) -> Any:
        inner = f"{path}.{name}" if path else name
        is_scalar = isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""
        if is_scalar and _SECRET_NAME.search(_CAMEL_CASE.sub("_", name)):
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
        seen = 0
        while waiting and seen < _MAX_SCHEMAS:
            schema = waiting.pop()
            seen += 1
            yield schema
            reference = schema.get("$ref")
            if isinstance(reference, str) and reference.startswith("#"):
                with suppress(LookupError):
                    waiting.append(object_or_empty(self._resolver.resolve(self._root, reference)))
            for keyword in ("allOf", "anyOf", "oneOf"):
                parts = schema.get(keyword)
                waiting += [object_or_empty(one) for one in cast("list[Any]", parts)] if isinstance(parts, list) else []


def _declares_secret(schema: Mapping[str, Any]) -> bool:
    return (
        schema.get("format") == "password"
        or schema.get("writeOnly") is True
        or schema.get("x-secret") is True
        or "secret" in (schema.get("x-binding"), schema.get("x_binding"))
    )
