"""What servers list, in a few words."""

from __future__ import annotations

from typing import Any

from paddock.plugins.tool_pinning.normalize import Definition, UnusableReason

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def tool(name: str = "read", description: str = "Read a file", schema: Any = PATH, **fields: Any) -> Definition:
    return Definition("tool", name, {"name": name, "description": description, "inputSchema": schema} | fields)


def instructions(text: str) -> Definition:
    return Definition("instructions", "", text)


def fine(raw: Any) -> UnusableReason | None:
    """Stands where an MCP tool is judged: only a schema that is no object is bad."""
    return (
        None
        if isinstance(raw.get("inputSchema"), dict)
        else UnusableReason("its inputSchema is no object", "fix the schema")
    )
