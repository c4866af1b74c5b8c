"""What servers list, in a few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock.plugins.tool_pinning.normalize import InvalidDefinition

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@dataclass(frozen=True)
class One:
    """A definition as a wire hands it on."""

    kind: str
    name: str
    raw: Any


def tool(name: str = "read", description: str = "Read a file", schema: Any = PATH, **fields: Any) -> One:
    return One("tool", name, {"name": name, "description": description, "inputSchema": schema} | fields)


def instructions(text: str) -> One:
    return One("instructions", "", text)


def fine(raw: Any) -> InvalidDefinition | None:
    """Stands where an MCP tool is judged: only a schema that is no object is bad."""
    return (
        None
        if isinstance(raw.get("inputSchema"), dict)
        else InvalidDefinition("its inputSchema is no object", "fix the schema")
    )
