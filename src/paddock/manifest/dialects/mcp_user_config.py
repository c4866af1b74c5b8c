"""Configuration values of MCP servers, above all keys. They never become part of a manifest.

Each becomes a field of the system-side config and a `${user_config.NAME}` reference. Values found in a file are
collected separately.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from paddock.manifest.capability import Capability, InvalidCapability, parse_capability
from paddock.manifest.model import JsonObject, Manifest
from paddock.manifest.syntax.document import ValuePath
from paddock.manifest.syntax.fields import ProblemReport

_REFERENCE = re.compile(r"\$\{user_config\.([^}]+)\}")
# Words before a key that are not part of it.
_AUTH_SCHEME = re.compile(r"(?:(?:Bearer|Basic|Token|ApiKey|Api-Key)\s)?[\s:;,=/&?-]{0,3}", re.IGNORECASE)
_URL = re.compile(r"(https?)://(\[[^\]/?#]*\]|[^/:?#]*)(?::([0-9]{1,5}))?(?=[/?#]|\Z)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class ImportedServer:
    """One server of a settings file, with the configuration values that the file held."""

    manifest: Manifest
    values: JsonObject = dataclasses.field(default_factory=dict[str, Any], repr=False)  # may hold keys


class ConfigFieldBuilder:
    """Collects the configuration fields of a server, and the values already known for them."""

    def __init__(self) -> None:
        self.properties: dict[str, dict[str, Any]] = {}
        self.required: list[str] = []
        self.values: dict[str, Any] = {}
        self._names: dict[tuple[str, str], str] = {}

    def add_field(
        self, origin: str, label: str, schema: dict[str, Any], *, required: bool = False, value: Any = None
    ) -> str:
        """Declare a field, and return the reference that stands for it in commands, env and headers.

        The same label from the same origin is one field; from another origin it is a separate field.
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
        """Move a text that may be a key into the configuration, whatever it looks like."""
        schema: dict[str, Any] = {"type": "string", "x-secret": True}
        value = text.replace("${", "$${")  # `${` begins a variable in our files; here it is literal
        name = self._names.get((origin, label))
        while name is not None and self.values.get(name) != value:  # a different value under the same label
            origin = f"{origin}+"
            name = self._names.get((origin, label))
        return self.add_field(origin, label, schema, required=True, value=value)

    def _free_name(self, base: str) -> str:
        name, count = base, 2
        while name in self.properties:
            name, count = f"{base}_{count}", count + 1
        return name

    @property
    def schema(self) -> JsonObject | None:
        if not self.properties:
            return None
        schema: dict[str, Any] = {"type": "object", "properties": self.properties, "additionalProperties": False}
        if self.required:
            schema["required"] = list(self.required)
        return schema


def extract_literals(text: str, extract: Callable[[str], str]) -> str:
    """Move every literal part between the references of a text, unless it is clearly not a key."""
    parts: list[str] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        parts += [text[end : match.start()], match[0]]
        end = match.end()
    parts.append(text[end:])
    return "".join(
        part if index % 2 or _AUTH_SCHEME.fullmatch(part) else extract(part) for index, part in enumerate(parts)
    )


def find_references(texts: list[str]) -> list[str]:
    """Return the names of the fields that these texts refer to."""
    return [name for text in texts for name in _REFERENCE.findall(text)]


def remote_capabilities(report: ProblemReport, path: ValuePath, url: str) -> tuple[Capability, ...]:
    """Return the network access for a remote server's URL. It is pinned, so the host must be literal."""
    if "@" in re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]:
        report.error(path, "has a name or password in it", "remove it from the address and send it in a header", "url")
        return ()
    match = _URL.match(url)
    if not match:
        report.error(
            path, "is not a web address with a host", "write https://host/…; only what follows may vary", "url"
        )
        return ()
    port = match[3] or ("443" if match[1].lower() == "https" else "80")
    try:
        return (parse_capability(f"net:{match[2]}:{port}"),)
    except InvalidCapability as error:
        report.error(path, error.message, "write https://host/…; only what follows may vary", "url")
        return ()
