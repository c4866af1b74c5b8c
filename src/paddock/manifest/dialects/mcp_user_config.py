"""The values a person gives to an MCP server: keys above all. They never become part of a manifest.

Each becomes a field of the system-side config and a `${user_config.NAME}` reference; what a file had for it is
collected apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from paddock.manifest.capability import Capability, InvalidCapability, parse_capability
from paddock.manifest.model import JsonObject, Manifest
from paddock.manifest.syntax.document import ValuePath
from paddock.manifest.syntax.fields import ProblemReport

_REFERENCE = re.compile(r"\$\{user_config\.([^}]+)\}")
# Words that stand before a key without being one.
_AUTH_SCHEME = re.compile(r"(?:(?:Bearer|Basic|Token|ApiKey|Api-Key)\s)?[\s:;,=/&?-]{0,3}", re.IGNORECASE)
_URL = re.compile(r"(https?)://(\[[^\]/?#]*\]|[^/:?#]*)(?::([0-9]{1,5}))?(?=[/?#]|\Z)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ImportedServer:
    """One server of a configuration file, with the values that the file held for its configuration."""

    manifest: Manifest
    values: JsonObject = field(default_factory=dict[str, Any], repr=False)  # may hold keys


class ConfigFieldBuilder:
    """Collects the fields that a server's own configuration will have, and the values already known for them."""

    def __init__(self) -> None:
        self.properties: dict[str, dict[str, Any]] = {}
        self.required: list[str] = []
        self.values: dict[str, Any] = {}
        self._names: dict[tuple[str, str], str] = {}

    def add_field(
        self, origin: str, label: str, schema: dict[str, Any], *, required: bool = False, value: Any = None
    ) -> str:
        """Declare a field and return the reference that stands for it in commands, env and headers.

        The same label from the same origin is one field; from another it is a field of its own.
        """
        name = self._names.get((origin, label))
        if name is None:
            name = self._free_name(re.sub(r"[^A-Za-z0-9_]", "_", label)[:100] or "value")
            self._names[(origin, label)] = name
            self.properties[name] = schema
        if required and name not in self.required:
            self.required.append(name)
        if value is not None:
            self.values[name] = value
        return f"${{user_config.{name}}}"

    def add_secret(self, origin: str, label: str, text: str) -> str:
        """A text that may be a key: it moves into the configuration, whatever it looks like."""
        schema: dict[str, Any] = {"type": "string", "x-secret": True}
        value = text.replace("${", "$${")  # in our own files `${` begins a variable; the text means itself
        name = self._names.get((origin, label))
        while name is not None and self.values.get(name) != value:  # another value under the same label
            origin = f"{origin}+"
            name = self._names.get((origin, label))
        return self.add_field(origin, label, schema, required=True, value=value)

    def _free_name(self, wanted: str) -> str:
        name, count = wanted, 2
        while name in self.properties:
            name, count = f"{wanted}_{count}", count + 1
        return name

    @property
    def schema(self) -> JsonObject | None:
        if not self.properties:
            return None
        schema: dict[str, Any] = {"type": "object", "properties": self.properties, "additionalProperties": False}
        if self.required:
            schema["required"] = list(self.required)
        return schema


def extract_literals(text: str, move: Callable[[str], str]) -> str:
    """A text with references in it, every other part of which is moved too unless it is plainly no key."""
    parts: list[str] = []
    end = 0
    for found in _REFERENCE.finditer(text):
        parts += [text[end : found.start()], found[0]]
        end = found.end()
    parts.append(text[end:])
    return "".join(
        part if index % 2 or _AUTH_SCHEME.fullmatch(part) else move(part) for index, part in enumerate(parts)
    )


def find_references(texts: list[str]) -> list[str]:
    """The names of the fields that these texts refer to."""
    return [name for text in texts for name in _REFERENCE.findall(text)]


def remote_capabilities(report: ProblemReport, path: ValuePath, url: str) -> tuple[Capability, ...]:
    """The one place a remote server's address leads to. It is pinned, so the host must be written out."""
    if "@" in re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]:
        report.error(path, "has a name or password in it", "remove it from the address and send it in a header", "url")
        return ()
    found = _URL.match(url)
    if not found:
        report.error(
            path, "is not a web address with a host", "write https://host/…; only what follows may vary", "url"
        )
        return ()
    port = found[3] or ("443" if found[1].lower() == "https" else "80")
    try:
        return (parse_capability(f"net:{found[2]}:{port}"),)
    except InvalidCapability as error:
        report.error(path, error.message, "write https://host/…; only what follows may vary", "url")
        return ()
