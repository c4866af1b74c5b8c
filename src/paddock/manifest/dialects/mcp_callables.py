"""Reads tools, resources and prompts in MCP's format, wherever a manifest lists them."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.manifest.model import CallableForm, CallableSpec, Prompt, PromptArgument, Resource
from paddock.manifest.names import is_mcp_tool_name
from paddock.manifest.rules.field_rules import read_display_text, read_effects, read_schema
from paddock.manifest.syntax.fields import Fields, ProblemReport


def read_tools(report: ProblemReport, fields: Fields) -> Iterator[CallableSpec]:
    """Read MCP tools. Their schemas may be missing and are then fetched from the server later."""
    seen: set[str] = set()
    for tool in fields.entries("tools"):
        name = tool.text("name")
        if name and not is_mcp_tool_name(name):
            report.error(
                tool.at("name"),
                f"{name[:80]!r} is not a tool name",
                "use letters, digits, '_', '-', '.' or '/', at most 128",
                "tool_name",
            )
        elif name and name in seen:
            report.error(tool.at("name"), f"{name!r} is declared twice", "keep one of them", "duplicate_name")
        seen.add(name)
        yield CallableSpec(
            name,
            CallableForm.TOOL,
            tool.text("description"),
            title=read_display_text(report, tool, "title"),
            input_schema=read_schema(report, tool, "inputSchema"),
            output_schema=read_schema(report, tool, "outputSchema"),
            effects=read_effects(report, tool),
            timeout_sec=tool.optional_integer("timeout_sec"),
            annotations=tool.object("annotations") or {},
        )


def read_resources(fields: Fields) -> Iterator[Resource]:
    for resource in fields.entries("resources"):
        yield Resource(
            resource.text("uri"),
            resource.text("name"),
            resource.text("description"),
            resource.optional_text("mimeType"),
        )


def read_prompts(fields: Fields) -> Iterator[Prompt]:
    for prompt in fields.entries("prompts"):
        yield Prompt(
            prompt.text("name"), prompt.text("description"), tuple(read_arguments(prompt)), prompt.optional_text("text")
        )


def read_arguments(prompt: Fields) -> Iterator[PromptArgument]:
    """Read a prompt's arguments: mappings, or bare names as MCP bundles write them."""
    for index, argument in enumerate(prompt.items("arguments")):
        if isinstance(argument, str):
            yield PromptArgument(argument)
        else:
            fields = Fields(argument, prompt.at("arguments", index))
            yield PromptArgument(fields.text("name"), fields.text("description"), fields.flag("required"))
