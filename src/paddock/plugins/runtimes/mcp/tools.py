"""Which of the tools that a server lists can be used, and what is wrong with the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from paddock.core.printable import printable
from paddock.core.schema import check_schema
from paddock.manifest.model import CallableSpec, Form
from paddock.manifest.names import is_mcp_tool_name

MOST_BYTES: Final = 256 * 1024
"""Of one tool's definition, which models read with every request."""
LONGEST_DESCRIPTION: Final = 16_000
LONGEST_TITLE: Final = 200
_ANYTHING: Final = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Bad:
    """A tool that cannot be offered: why, and what its author would have to change."""

    reason: str
    repair: str


def judge_tools(raws: Iterable[Any]) -> tuple[CallableSpec | Bad, ...]:
    """The verdict on each tool of a list, in its order. Of several with one name the first is the tool."""
    verdicts: list[CallableSpec | Bad] = []
    seen: set[str] = set()
    for raw in raws:
        verdict = judge_tool(raw)
        if isinstance(verdict, CallableSpec):
            if verdict.name in seen:
                verdict = Bad(f"a second tool is called {verdict.name}", "give each tool a name of its own")
            else:
                seen.add(verdict.name)
        verdicts.append(verdict)
    return tuple(verdicts)


def judge_tool(raw: Any) -> CallableSpec | Bad:
    """A tool as its server listed it, made ready to be called; or what is wrong with it.

    The output schema is that of `structuredContent` in the tool's result.
    """
    if not isinstance(raw, dict):
        return Bad("it is no object", "list tools as objects with a name and an inputSchema")
    tool = cast("dict[str, Any]", raw)
    name = tool.get("name")
    if not isinstance(name, str) or not is_mcp_tool_name(name):
        told = printable(repr(name), 80) if name is not None else "no name"
        return Bad(f"{told} is not a tool name", "use letters, digits, '_', '-', '.' or '/', at most 128")
    size = len(orjson.dumps(tool))
    if size > MOST_BYTES:
        return Bad(
            f"its definition has {size} bytes, and at most {MOST_BYTES} are accepted",
            "shorten its description and schemas",
        )
    description = tool.get("description")
    if description is not None and not isinstance(description, str):
        return Bad("its description is no text", "write the description as text, or leave it out")
    for key in ("inputSchema", "outputSchema"):
        fault = _schema_fault(tool, key)
        if fault is not None:
            return fault
    annotations: Any = tool.get("annotations")
    hints = cast("dict[str, Any]", annotations) if isinstance(annotations, dict) else {}
    return CallableSpec(
        name,
        Form.TOOL,
        _readable(description or ""),
        title=_title(tool.get("title")) or _title(hints.get("title")),
        input_schema=_ANYTHING if tool.get("inputSchema") is None else tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
        annotations=hints,
    )


def _schema_fault(tool: dict[str, Any], key: str) -> Bad | None:
    schema = tool.get(key)
    if schema is None:
        return None  # the protocol wants an input schema; a tool without one takes what it is given
    if not isinstance(schema, dict):
        return Bad(f"its {key} is no object", "write a JSON Schema of type object")
    kind = cast("dict[str, Any]", schema).get("type", "object")
    if kind != "object" and key == "inputSchema":
        return Bad(f"its {key} is not of type object", "arguments are named: write a JSON Schema of type object")
    problems = check_schema(cast("object", schema), key)
    if problems:
        return Bad(f"its {key} cannot be used: {problems[0]}", problems[0].hint or "mend the schema")
    return None


def _title(text: Any) -> str:
    return printable(text, LONGEST_TITLE) if isinstance(text, str) else ""


def _readable(text: str) -> str:
    """The text with its lines, and with whatever does not show written out: nothing in it is hidden from a person."""
    lines = (printable(line.replace("\t", " "), LONGEST_DESCRIPTION) for line in text.splitlines())
    joined = "\n".join(lines)
    return joined if len(joined) <= LONGEST_DESCRIPTION else joined[: LONGEST_DESCRIPTION - 1] + "…"
