"""The settings of a program that speaks MCP, with servers taken out of them and Paddock put in their place. Pure.

Only the lists of servers are written anew. Everything else in the text, comments too, stays as it is.
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
    """How a client starts Paddock.

    Args:
        form: Of the client's settings: `vscode-mcp`, or any other.
        env: What it has to be started with, where that is not what the client has.
    """
    program, *arguments = SERVER_COMMAND
    kind = {"type": "stdio"} if form == VSCODE else {}
    return {**kind, "command": program, "args": arguments, **({"env": dict(env)} if env else {})}


def http_entry(url: str, token: str) -> dict[str, Any]:
    """How a client reaches Paddock over HTTP."""
    return {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}


def config_snippet(form: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a client that has Paddock and nothing else."""
    return {"servers" if form == VSCODE else "mcpServers": {SERVER_NAME: dict(entry)}}


def is_paddock(server: Any) -> bool:
    """Whether an entry of such a list is Paddock itself."""
    fields = as_object(server) or {}
    command, arguments = fields.get("command"), fields.get("args")
    first = cast("list[Any]", arguments)[:1] if isinstance(arguments, list) else []
    return isinstance(command, str) and (command.rpartition("/")[2], *first) == SERVER_COMMAND


def parse_server_lists(name: str, text: str) -> list[ServerList]:
    """The lists of servers in a settings file; empty where it is none.

    Raises:
        Invalid: it cannot be parsed.
    """
    value = parse_json(name, text).value
    return find_server_lists(Fields(value), name) if isinstance(value, dict) else []


def replace_with_paddock(name: str, text: str, taken: Container[str], entry: Mapping[str, Any]) -> str:
    """The text with Paddock in place of the servers that were taken over.

    Args:
        name: The file's.
        text: What stands in it.
        taken: The servers, by the names that the file has for them.
        entry: What stands for Paddock.

    Raises:
        Invalid: it cannot be parsed.
        Conflict: something else is called as Paddock would be.
    """
    spans = value_spans(text)
    for servers in reversed(parse_server_lists(name, text)):  # from the end, so that what stands before keeps its place
        listed = servers.holder.within(servers.key).value
        kept = {title: server for title, server in listed.items() if title not in taken}
        if len(kept) == len(listed):
            continue
        if not is_paddock(kept.get(SERVER_NAME, {"command": "paddock", "args": ["mcp"]})):
            raise Conflict(
                f"{name} has another server that is called {SERVER_NAME}",
                code="import.name_taken",
                hint="give it another name there, then try again",
            )
        start, end = spans[*servers.holder.path, servers.key]
        text = text[:start] + _format_value(text, start, kept | {SERVER_NAME: dict(entry)}) + text[end:]
    return text


def _format_value(text: str, at: int, value: Any) -> str:
    """A value as the text around it is written: with its step of indentation, from the line that it begins on."""
    step = found[1] if (found := _INDENTATION.search(text)) else "  "
    line = text[text.rfind("\n", 0, at) + 1 : at]
    before = line[: len(line) - len(line.lstrip())]
    return json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{before}")
