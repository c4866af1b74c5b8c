"""`paddock plugin tools`: a plugin's tools, and suspicious text in their descriptions, for a person to judge."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.trust import print_untrusted_marks
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import print_json, print_message, print_result, styled, wrap_text
from paddock.core.errors import NotFound
from paddock.core.printable import count_text, printable
from paddock.core.schema.traversal import as_object
from paddock.plugins.tool_pinning.scan.findings import format_finding, sample_by_flag

MAX_HINTS = 20
MAX_TOOL_NAMES = 12
MAX_TOOLS = 200
MAX_DESCRIPTION_LINES = 12  # per tool, where all tools are listed
MAX_ENUM_VALUES = 30
MAX_LINE_CHARS = 10_000


def print_suspicious_text(hints: Sequence[Mapping[str, Any]], show_command: str) -> None:
    """Print each finding on a line of stderr; nothing if there are none.

    Args:
        hints: The findings as JSON data, as the daemon returns them too.
        show_command: The command that shows the text in context.
    """
    for hint in sample_by_flag(hints, MAX_HINTS, lambda hint: hint["flag"]):
        print_message(f"{styled('!', 'yellow')} suspicious wording: {format_finding(hint)}")
    if len(hints) > MAX_HINTS:
        print_message(f"{styled('!', 'yellow')} and {len(hints) - MAX_HINTS} more")
    if hints:
        print_message(f"  {styled('→', 'dim')} a finding is a hint, not a verdict; read the texts: {show_command}")


@command("tools", examples=["paddock plugin tools slow-count", "paddock plugin tools slow-count count"])
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.argument("tool", required=False, help="Show one tool with its schemas. [default: list all]")
@options.tenant
@options.as_json
def tools(name: str, tool: str | None, *, tenant: str, as_json: bool) -> None:
    """Show the tools of a plugin: descriptions, parameters and effects.

    Tools that a package declares are shown without running it; those of an MCP server, as it last listed them or as
    a trial saw them. An enabled server that never ran is started once to list them.
    """
    from paddock.cli.client.api_client import open_client, plugin_path

    with open_client(tenant) as client:
        recorded = client.get(f"{plugin_path(name)}/tools")
        if not recorded["known"] and client.get(plugin_path(name))["enabled"]:
            print_message(f"{recorded['name']} never ran: it is started once, to hear what it offers")
            recorded = client.post(f"{plugin_path(name)}/tools/meet", timeout_s=None)
    if tool is not None:
        _print_one_tool(recorded, tool, tenant, as_json=as_json)
    elif as_json:
        print_json(recorded)
    else:
        _print_all_tools(recorded, tenant)


def _print_all_tools(recorded: Mapping[str, Any], tenant: str) -> None:
    tools = recorded["tools"]
    for number, tool in enumerate(tools[:MAX_TOOLS]):
        if number:
            print_result("")
        _print_tool(recorded["name"], tool, tenant, MAX_DESCRIPTION_LINES)
    if len(tools) > MAX_TOOLS:
        print_message(f"and {len(tools) - MAX_TOOLS} more, which --json prints")
    print_suspicious_text(recorded["hints"], f"paddock plugin show {recorded['name']}{tenant_option(tenant)}")
    if recorded["read_marks"]["untrusted"]:
        print_untrusted_marks(recorded["name"], list(recorded["read_marks"]["untrusted"]), tenant)
    if not recorded["known"]:
        print_message(_unknown_tools_hint(recorded["name"], tenant))
    elif not tools:
        print_message(f"{recorded['name']} offers nothing to call")
    if recorded["listing"] is not None:
        print_message(_listing_text(recorded["listing"]))


def _listing_text(listing: Mapping[str, Any]) -> str:
    """Return when the tools were seen, and as which files."""
    seen = "seen in a trial" if listing["trial"] else "last listed"
    files = listing["digest"] if listing["current"] else f"{listing['digest']}, which is not the version in use"
    return f"{seen} at {listing['seen_at'][:19]}Z with the files {files}"


def _print_one_tool(recorded: Mapping[str, Any], tool: str, tenant: str, *, as_json: bool) -> None:
    plugin = recorded["name"]
    match = next((item for item in recorded["tools"] if tool in (item["name"], item["call"])), None)
    if match is None:
        names = ", ".join(item["name"] for item in recorded["tools"][:20])
        hint = f"it offers: {names}" if names else "it offers nothing to call"
        raise NotFound(
            f"{plugin} has no {tool!r}",
            code="callable.not_found",
            hint=hint if recorded["known"] else _unknown_tools_hint(plugin, tenant),
            details={"plugin": plugin},
        )
    if as_json:
        print_json({"plugin": plugin, **match})
        return
    _print_tool(plugin, match, tenant)
    for title, schema in (("takes", match["input_schema"]), ("gives", match["output_schema"])):
        if schema is not None:
            print_result("")
            print_result(f"  What it {title}, as JSON Schema")
            for line in _schema_lines(schema):
                print_result(f"    {line}")


def _unknown_tools_hint(plugin: str, tenant: str) -> str:
    command = f"paddock plugin enable {plugin}{tenant_option(tenant)}"
    return f"the tools of {plugin} are not known yet, because it never ran; enable it: {command}"


def _print_tool(plugin: str, tool: Mapping[str, Any], tenant: str, max_lines: int | None = None) -> None:
    """Print one tool. Its text is the author's: it was made printable when it was read, and is cut here."""
    title = f" — {tool['title']}" if tool["title"] else ""
    print_result(styled(printable(f"{tool['call']}{title}", 400), "bold", stream=sys.stdout))
    description: Sequence[str] = tool["description"].splitlines()
    for line in description[:max_lines]:
        print_result(wrap_text(f"    {printable(line, MAX_LINE_CHARS)}", 4))
    if max_lines is not None and len(description) > max_lines:
        print_result(f"    … and {len(description) - max_lines} more lines")
    for parameter in tool["parameters"]:
        print_result(wrap_text(f"    • {printable(_parameter_text(parameter), MAX_LINE_CHARS)}", 8))
    if not tool["parameters"]:
        print_result("    • takes no parameters" if _takes_nothing(tool) else "    • does not say what it takes")
    for label, text in _tool_facts(plugin, tool, tenant):
        print_result(wrap_text(f"    {label}: {printable(text, MAX_LINE_CHARS)}", 8))
    for hint in tool["hints"]:
        print_result(wrap_text(styled(f"    odd: {format_finding(hint)}", "yellow", stream=sys.stdout), 8))


def _tool_facts(plugin: str, tool: Mapping[str, Any], tenant: str) -> Iterable[tuple[str, str]]:
    from paddock.manifest.effects import HARMLESS_EFFECTS, Effect
    from paddock.manifest.rules.recovery import recovery_text

    yield "effects", "; ".join(tool["does"])
    if tool["reads_trusted_by"]:
        yield "trusted", f"{tool['reads_trusted_by']} takes its word that it only reads"
    if tool["errors_trusted_by"]:
        yield "errors", f"mean that nothing was done, as {tool['errors_trusted_by']} settled"
    if not HARMLESS_EFFECTS.issuperset(map(Effect, tool["effects"])):
        yield "recovery", f"{tool['recovery']}: if it is cut off, {recovery_text(tool['recovery'], tool['probe'])}"
    if tool["requires_approval"]:
        yield "approval", "a person has to approve each call"
    if tool["required_scopes"]:
        yield "scopes", ", ".join(tool["required_scopes"])
    match tool["standing"]:
        case "declared":
            pass  # as its package declares, which was consented to
        case "unmet":
            yield "standing", "its package names it; its server never ran"
        case "accepted":
            yield "standing", f"accepted ({tool['accepted_by']})"
        case "quarantined":
            command = f"paddock plugin accept {plugin} {shlex.quote(tool['name'])}{tenant_option(tenant)}"
            yield "standing", f"quarantined: {tool['reason']} — look at it: {command}"
        case standing:
            yield "standing", f"{standing}: {tool['reason']}" if tool["reason"] else standing


def _takes_nothing(tool: Mapping[str, Any]) -> bool:
    schema = as_object(tool["input_schema"]) or {}
    return "properties" in schema or schema.get("additionalProperties") is False


def _parameter_text(parameter: Mapping[str, Any]) -> str:
    facts = [parameter["type"], *(["required"] if parameter["required"] else [])]
    if "default" in parameter:
        facts.append(f"default {_format_value(parameter['default'])}")
    if "enum" in parameter:
        more = ", …" if len(parameter["enum"]) > MAX_ENUM_VALUES else ""
        facts.append(f"one of {', '.join(map(_format_value, parameter['enum'][:MAX_ENUM_VALUES]))}{more}")
    description = " ".join(parameter["description"].split())
    return f"{parameter['name']} ({', '.join(facts)})" + (f": {description}" if description else "")


def _format_value(value: Any) -> str:
    from paddock.plugins.tool_pinning.render import visible_text

    return printable(visible_text(json.dumps(value, ensure_ascii=False)), 200)


def _schema_lines(schema: Any) -> list[str]:
    from paddock.plugins.tool_pinning.invisible_text import escape_invisible

    lines = json.dumps(schema, indent=2, ensure_ascii=False).split("\n")
    return [printable(escape_invisible(line), MAX_LINE_CHARS) for line in lines]


def report_discovered_tools(discovered: Mapping[str, Any], tenant: str, *, tried: Container[str] = ()) -> None:
    """Print the tools of a server that was heard for the first time, and suspicious text in what it says.

    Args:
        discovered: The plugin as it is listed.
        tenant: The tenant.
        tried: Tools that a trial saw earlier.
    """
    show_command = f"paddock plugin tools {discovered['name']}{tenant_option(tenant)}"
    tools = [tool for tool in discovered["callables"] if tool not in tried]
    if tools:
        names = ", ".join(map(printable, tools[:MAX_TOOL_NAMES])) + (", …" if len(tools) > MAX_TOOL_NAMES else "")
        print_message(f"{count_text(len(tools), 'tool')} seen for the first time: {names} — {show_command}")
    print_suspicious_text(discovered["hints"], show_command)
