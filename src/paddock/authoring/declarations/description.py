"""The description of a plugin's program by itself: its version, and its tools and methods with their schemas.

It comes from the plugin's own process, so nothing in it is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from paddock.core.errors import PluginError
from paddock.core.printable import printable
from paddock.core.schema.json_value import is_deeper_than

SECTIONS = ("tools", "methods")
_MAX_ENTRIES = 1000


class DescribedCallable(Struct, frozen=True):
    """A tool or method, as far as its program declares it. The manifest declares all else."""

    section: str
    name: str
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the manifest's entry that the program declares."""
        values = {
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
        }
        return {key: value for key, value in values.items() if value is not None}


class ProgramDescription(Struct, frozen=True):
    """What a program says about itself. A version of None means that it states none."""

    name: str
    version: str | None
    callables: tuple[DescribedCallable, ...]
    sections: tuple[str, ...] = SECTIONS  # those that it lists completely


def parse_description(answer: Any) -> ProgramDescription:
    """Read the answer of a program.

    Raises:
        PluginError: it is malformed.
    """
    if not isinstance(answer, dict) or is_deeper_than(cast("object", answer)):
        raise _malformed("it is no object, or too deep")
    fields = cast("dict[str, Any]", answer)
    name, version = fields.get("name"), fields.get("version")
    if not isinstance(name, str) or not isinstance(version, str):
        raise _malformed("it states no name or version")
    callables = [parse_callable(section, entry) for section in SECTIONS for entry in _entries(fields.get(section, []))]
    return ProgramDescription(name, version, tuple(callables))


def parse_callable(section: str, entry: Any) -> DescribedCallable:
    """Read one entry.

    Raises:
        PluginError: it is malformed.
    """
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    name, description = fields.get("name"), fields.get("description")
    schemas = [fields.get(key) for key in ("input_schema", "output_schema")]
    if not isinstance(name, str) or not isinstance(description, str | None):
        raise _malformed(f"an entry of {section} has no usable name or description")
    if not all(isinstance(schema, dict | None) for schema in schemas):
        raise _malformed(f"a schema of {printable(name, 80)} is no object")
    return DescribedCallable(section, name, description or None, *cast("list[dict[str, Any] | None]", schemas))


def _entries(value: Any) -> list[Any]:
    entries = cast("list[Any]", value) if isinstance(value, list) else None
    if entries is None or len(entries) > _MAX_ENTRIES:
        raise _malformed("its tools or methods are no list, or too many")
    return entries


def _malformed(detail: str) -> PluginError:
    return PluginError(
        f"the program describes its tools in an unknown format: {detail}",
        code="sync.malformed_description",
        hint="use the SDK of this version of Paddock",
    )
