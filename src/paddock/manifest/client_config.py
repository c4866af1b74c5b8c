"""Edits the settings of MCP clients: removes imported servers and adds Paddock instead. Pure.

Only the server lists are rewritten. Everything else in the text, comments included, stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Any, Final, cast

from paddock.core.errors import Conflict
from paddock.core.schema.traversal import as_object
from paddock.manifest.dialects.mcp_clients import VSCODE, ServerList, find_server_lists
from paddock.manifest.syntax.fields import Fields
from paddock.manifest.syntax.json_document import parse_json, value_spans

SERVER_NAME: Final = "paddock"
SERVER_COMMAND: Final = ("paddock", "mcp")
_INDENTATION = re.compile(r"\n([ \t]+)\S")


def stdio_entry(form: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings entry with which a client starts Paddock.

    Args:
        form: The format of the client's settings: `vscode-mcp`, or any other.
        env: Variables to start it with, where they differ from the client's own.
    """
    program, *arguments = SERVER_COMMAND
    kind = {"type": "stdio"} if form == VSCODE else {}
    return {**kind, "command": program, "args": arguments, **({"env": dict(env)} if env else {})}


def http_entry(url: str, token: str) -> dict[str, Any]:
    """Return the settings entry with which a client reaches Paddock over HTTP."""
    return {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}


def config_snippet(form: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a client that has Paddock and nothing else."""
    return {"servers" if form == VSCODE else "mcpServers": {SERVER_NAME: dict(entry)}}


def is_paddock(server: Any) -> bool:
    """Whether a server entry is Paddock itself."""
    fields = as_object(server) or {}
    command, arguments = fields.get("command"), fields.get("args")
    first = cast("list[Any]", arguments)[:1] if isinstance(arguments, list) else []
    return isinstance(command, str) and (command.rpartition("/")[2], *first) == SERVER_COMMAND


def parse_server_lists(name: str, text: str) -> list[ServerList]:
    """Return the server lists of a settings file; empty if it has none.

    Raises:
        Invalid: it cannot be parsed.
    """
    value = parse_json(name, text).value
    return find_server_lists(Fields(value), name) if isinstance(value, dict) else []


def replace_with_paddock(name: str, text: str, imported: Container[str], entry: Mapping[str, Any]) -> str:
    """Return the text with Paddock in place of the servers that were imported.

    Args:
        name: The name of the file.
        text: Its content.
        imported: The servers, by their names in the file.
        entry: The entry for Paddock.

    Raises:
        Invalid: it cannot be parsed.
        Conflict: another server already has Paddock's name.
    """
    spans = value_spans(text)
    for servers in reversed(parse_server_lists(name, text)):  # from the end, so that earlier offsets stay valid
        servers_by_name = servers.holder.within(servers.key).value
        remaining = {title: server for title, server in servers_by_name.items() if title not in imported}
        if len(remaining) == len(servers_by_name):
            continue
        if not is_paddock(remaining.get(SERVER_NAME, {"command": "paddock", "args": ["mcp"]})):
            raise Conflict(
                f"{name} has another server that is called {SERVER_NAME}",
                code="import.name_taken",
                hint="give it another name there, then try again",
            )
        start, end = spans[*servers.holder.path, servers.key]
        text = text[:start] + _format_value(text, start, remaining | {SERVER_NAME: dict(entry)}) + text[end:]
    return text


def _format_value(text: str, offset: int, value: Any) -> str:
    """Format a value like the surrounding text: its indentation step, relative to the line it begins on."""
    indent = match[1] if (match := _INDENTATION.search(text)) else "  "
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    line_indent = line[: len(line) - len(line.lstrip())]
    return json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", f"\n{line_indent}")
