"""Parses the tools that an MCP server lists into callables, or says what is wrong with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

import orjson

from paddock.core.printable import printable
from paddock.core.schema.compile import check_schema
from paddock.manifest.model import CallableForm, CallableSpec
from paddock.manifest.names import is_mcp_tool_name
from paddock.plugins.tool_pinning.normalize import UnusableReason

MAX_TOOL_BYTES: Final = 256 * 1024
"""Of one tool's definition, which models read with every request."""
MAX_DESCRIPTION_CHARS: Final = 16_000
MAX_TITLE_CHARS: Final = 200
_ANY_OBJECT: Final = {"type": "object"}


def parse_tools(raws: Iterable[Any]) -> tuple[CallableSpec | UnusableReason, ...]:
    """Parse each tool of a list, in order. Of several with one name the first wins."""
    results: list[CallableSpec | UnusableReason] = []
    seen: set[str] = set()
    for raw in raws:
        parsed = parse_tool(raw)
        if isinstance(parsed, CallableSpec):
            if parsed.name in seen:
                parsed = UnusableReason(f"a second tool is called {parsed.name}", "give each tool a name of its own")
            else:
                seen.add(parsed.name)
        results.append(parsed)
    return tuple(results)


def parse_tool(raw: Any) -> CallableSpec | UnusableReason:
    """Parse a listed tool into a callable, or return what is wrong with it.

    The output schema is that of `structuredContent` in the tool's result.
    """
    if not isinstance(raw, dict):
        return UnusableReason("it is no object", "list tools as objects with a name and an inputSchema")
    tool = cast("dict[str, Any]", raw)
    name = tool.get("name")
    if not isinstance(name, str) or not is_mcp_tool_name(name):
        shown_name = printable(repr(name), 80) if name is not None else "no name"
        return UnusableReason(
            f"{shown_name} is not a tool name", "use letters, digits, '_', '-', '.' or '/', at most 128"
        )
    size = len(orjson.dumps(tool))
    if size > MAX_TOOL_BYTES:
        return UnusableReason(
            f"its definition has {size} bytes, and at most {MAX_TOOL_BYTES} are accepted",
            "shorten its description and schemas",
        )
    description = tool.get("description")
    if description is not None and not isinstance(description, str):
        return UnusableReason("its description is no text", "write the description as text, or leave it out")
    for key in ("inputSchema", "outputSchema"):
        problem = _schema_problem(tool, key)
        if problem is not None:
            return problem
    annotations: Any = tool.get("annotations")
    hints = cast("dict[str, Any]", annotations) if isinstance(annotations, dict) else {}
    return CallableSpec(
        name,
        CallableForm.TOOL,
        _clean_description(description or ""),
        title=_clean_title(tool.get("title")) or _clean_title(hints.get("title")),
        input_schema=_ANY_OBJECT if tool.get("inputSchema") is None else tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
        annotations=hints,
    )


def _schema_problem(tool: dict[str, Any], key: str) -> UnusableReason | None:
    schema = tool.get(key)
    if schema is None:
        return None  # the protocol requires an input schema; a tool without one accepts anything
    if not isinstance(schema, dict):
        return UnusableReason(f"its {key} is no object", "write a JSON Schema of type object")
    schema_type = cast("dict[str, Any]", schema).get("type", "object")
    if schema_type != "object" and key == "inputSchema":
        return UnusableReason(
            f"its {key} is not of type object", "arguments are named: write a JSON Schema of type object"
        )
    problems = check_schema(cast("object", schema), key)
    if problems:
        return UnusableReason(f"its {key} cannot be used: {problems[0]}", problems[0].hint or "fix the schema")
    return None


def _clean_title(text: Any) -> str:
    return printable(text, MAX_TITLE_CHARS) if isinstance(text, str) else ""


def _clean_description(text: str) -> str:
    """Return the text with its lines, and with invisible characters escaped: nothing in it is hidden from a person."""
    lines = (printable(line.replace("\t", " "), MAX_DESCRIPTION_CHARS) for line in text.splitlines())
    joined = "\n".join(lines)
    return joined if len(joined) <= MAX_DESCRIPTION_CHARS else joined[: MAX_DESCRIPTION_CHARS - 1] + "…"
