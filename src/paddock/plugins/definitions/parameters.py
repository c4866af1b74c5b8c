"""What a callable takes, in words: the parameters of an input schema, each on a line that a person reads. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from paddock.core.printable import printable
from paddock.core.schema_walk import Resolver, as_object
from paddock.core.schema_words import kind_of
from paddock.plugins.definitions.hidden import unhidden

MOST_PARAMETERS: Final = 500
MOST_FORMS: Final = 8  # of one parameter that are told
DEEPEST: Final = 4  # lists in lists, and references to references, that are told
MOST_PARTS: Final = 50  # schemas that one is composed of
LONGEST_LINE: Final = 2_000
LONGEST_TEXT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a callable. `choices` are all that it may be, where the schema says so."""

    name: str
    type: str  # in words, as in "list of string"
    required: bool
    description: str
    choices: tuple[Any, ...] | None = None
    default: Any = None
    has_default: bool = False

    def to_value(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "description": self.description,
            **({"default": self.default} if self.has_default else {}),
            **({"enum": list(self.choices)} if self.choices is not None else {}),
        }


def visible(text: Any) -> str:
    """A text of an author's with its lines, and with everything that does not show written out."""
    if not isinstance(text, str):
        return ""
    lines = text[:LONGEST_TEXT].replace("\t", " ").splitlines()
    return "\n".join(printable(unhidden(line), LONGEST_LINE) for line in lines).strip()


def parameters_of(schema: Any) -> tuple[Parameter, ...]:
    """The parameters that an input schema names, those first that are required; of the schemas in its `allOf` too."""
    words = _Words(schema)
    fields: dict[str, Any] = {}
    required: set[str] = set()
    pending, seen = [schema], 0
    while pending and seen < MOST_PARTS:
        found, seen = words.followed(pending.pop(0)), seen + 1
        if found is None:
            continue
        fields = (as_object(found.get("properties")) or {}) | fields
        required |= {name for name in _list(found.get("required")) if isinstance(name, str)}
        pending += _list(found.get("allOf"))
    names = sorted(fields, key=lambda name: name not in required)[:MOST_PARAMETERS]
    return tuple(words.parameter(name, fields[name], name in required) for name in names)


class _Words:
    """What the parts of one schema say."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._resolver = Resolver()

    def followed(self, schema: Any) -> dict[str, Any] | None:
        """The schema that is meant: what it refers to, with what it says beside that. None where it says nothing."""
        found = as_object(schema)
        for _ in range(DEEPEST):
            reference = found.get("$ref") if found is not None else None
            if found is None or not isinstance(reference, str) or not reference.startswith("#"):
                return found
            try:
                target = as_object(self._resolver.resolve(self._root, reference))
            except (LookupError, ValueError):
                target = None
            beside = {key: value for key, value in found.items() if key != "$ref"}
            found = {**(target or {}), **beside}
        return found

    def parameter(self, name: str, schema: Any, required: bool) -> Parameter:
        found = self.followed(schema) or {}
        choices = [found["const"]] if "const" in found else found.get("enum")
        return Parameter(
            visible(name).replace("\n", " "),
            self._type(schema, 0),
            required,
            visible(found.get("description") or found.get("title")),
            tuple(cast("list[Any]", choices)) if isinstance(choices, list) else None,
            found.get("default"),
            "default" in found,
        )

    def _type(self, schema: Any, depth: int) -> str:
        found = self.followed(schema)
        if found is None or depth >= DEEPEST:
            return "anything"
        named = found.get("type")
        names = [one for one in (_list(named) or [named]) if isinstance(one, str)]
        if names:
            return " or ".join(self._named(one, found, depth) for one in names[:MOST_FORMS])
        choices = [found["const"]] if "const" in found else _list(found.get("enum"))
        forms = _list(found.get("anyOf")) or _list(found.get("oneOf")) or _list(found.get("allOf"))
        told = [kind_of(one) for one in choices] or [self._type(one, depth + 1) for one in forms[:MOST_FORMS]]
        return " or ".join(dict.fromkeys(told)) or ("object" if "properties" in found else "anything")

    def _named(self, name: str, schema: dict[str, Any], depth: int) -> str:
        if name == "array" and "items" in schema:
            return f"list of {self._type(schema['items'], depth + 1)}"
        form = schema.get("format")
        if name == "string" and isinstance(form, str):
            return f"string ({printable(unhidden(form), 40)})"
        return "list" if name == "array" else printable(unhidden(name), 40)


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
