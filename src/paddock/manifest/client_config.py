"""Edits the settings of MCP clients: removes imported servers and adds Paddock instead, and back. Pure.

Only the imported servers change. Everything else in the text, comments included, stays as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from paddock.core.errors import Conflict, Invalid
from paddock.core.schema.traversal import as_object
from paddock.manifest.dialects.mcp_server_lists import (
    CODEX,
    LIST_KEYS,
    VSCODE,
    ZED,
    ServerList,
    find_server_lists,
)
from paddock.manifest.syntax.document import SETTINGS_LIMITS, ParsedDocument
from paddock.manifest.syntax.fields import Fields
from paddock.manifest.syntax.json_document import SERVER_LIST_KEY, parse_json, value_spans
from paddock.manifest.syntax.json_edit import replace_members
from paddock.manifest.syntax.toml_document import parse_toml
from paddock.manifest.syntax.toml_edit import TablePath, format_table, replace_tables, select_tables

SERVER_NAME: Final = "paddock"
_BYTE_ORDER_MARK = "\ufeff"
_SUBCOMMAND = "mcp"
_MODULE = ["-m", "paddock.cli"]
_TOML_KEY = LIST_KEYS[CODEX]
_FIRST_FIELDS: Mapping[str, dict[str, Any]] = {VSCODE: {"type": "stdio"}, ZED: {"source": "custom"}}


def stdio_entry(form: str, command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings entry with which a client starts Paddock.

    Args:
        form: The format of the client's settings, one of `CLIENT_FORMS`.
        command: The program, and the arguments that make it `paddock`.
        env: Variables to start it with, where they may differ from the client's own.
    """
    program, *arguments = command
    environment = {"env": dict(env)} if env else {}
    return {**_FIRST_FIELDS.get(form, {}), "command": program, "args": [*arguments, _SUBCOMMAND], **environment}


def http_entry(url: str, token: str) -> dict[str, Any]:
    """Return the settings entry with which a client reaches Paddock over HTTP."""
    return {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}


def config_snippet(form: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a client that has Paddock and nothing else."""
    return {LIST_KEYS[form]: {SERVER_NAME: dict(entry)}}


def format_snippet(form: str, snippet: Mapping[str, Any]) -> str:
    """Return the snippet as text in the language of the client's settings."""
    if form != CODEX:
        return json.dumps(snippet, indent=2)
    return format_table((_TOML_KEY, SERVER_NAME), snippet[_TOML_KEY][SERVER_NAME]).rstrip()


def is_paddock(server: Any) -> bool:
    """Whether a server entry is Paddock itself."""
    fields = as_object(server) or {}
    if (nested := as_object(fields.get("command"))) is not None:  # an older form of Zed
        fields = {"command": nested.get("path"), "args": nested.get("args")}
    command, arguments = fields.get("command"), fields.get("args")
    words = cast("list[Any]", arguments) if isinstance(arguments, list) else []
    if not isinstance(command, str):
        return False
    if words[:2] == _MODULE:
        return words[2:3] == [_SUBCOMMAND]
    return command.rpartition("/")[2] == SERVER_NAME and words[:1] == [_SUBCOMMAND]


def mentions_servers(name: str, text: str) -> bool:
    """Whether a text may list servers; decided without parsing it."""
    return "mcp_servers" in text if name.endswith(".toml") else SERVER_LIST_KEY.search(text) is not None


def parse_server_lists(name: str, text: str) -> list[ServerList]:
    """Return the server lists of a settings file; empty if it has none.

    Raises:
        Invalid: it cannot be parsed.
    """
    value = _parse(name, text).value
    return find_server_lists(Fields(value), name) if isinstance(value, dict) else []


def _parse(name: str, text: str) -> ParsedDocument:
    parse = parse_toml if name.endswith(".toml") else parse_json
    return parse(name, text.removeprefix(_BYTE_ORDER_MARK), SETTINGS_LIMITS.max_values)


def servers_digest(name: str, text: str) -> str:
    """Return a digest of what the text says about servers, however it is formatted.

    Raises:
        Invalid: it cannot be parsed.
    """
    lists = [[list(servers.path), servers.servers] for servers in parse_server_lists(name, text)]
    return hashlib.sha256(json.dumps(lists, sort_keys=True).encode()).hexdigest()


def replace_with_paddock(name: str, text: str, imported: Container[str], entry: Mapping[str, Any]) -> str:
    """Return the text with Paddock in place of the servers that were imported.

    Args:
        name: The name of the file.
        text: Its content.
        imported: The servers, by their names in the file.
        entry: The entry for Paddock.

    Raises:
        Invalid: it cannot be parsed.
        Conflict: another server already has Paddock's name, or the text cannot be edited safely.
    """
    lists = [servers for servers in parse_server_lists(name, text) if any(one in imported for one in servers.titles)]
    for servers in lists:
        if SERVER_NAME in servers.servers and not (SERVER_NAME in imported or is_paddock(servers.servers[SERVER_NAME])):
            raise Conflict(
                f"{name} has another server that is called {SERVER_NAME}",
                code="import.name_taken",
                hint="give it another name there, then try again",
            )
    if name.endswith(".toml"):
        for servers in lists:
            text = _replace_in_toml(name, text, frozenset(one for one in servers.titles if one in imported), entry)
        return text
    mark = text[: len(text) - len(text.removeprefix(_BYTE_ORDER_MARK))]
    text = text.removeprefix(_BYTE_ORDER_MARK)
    spans = value_spans(text)
    for servers in sorted(lists, key=lambda one: spans[one.path], reverse=True):  # earlier offsets stay valid
        removed = {title for title in servers.titles if title in imported}
        text = replace_members(text, spans[servers.path][0], removed, SERVER_NAME, dict(entry))
    return mark + text


def restore_servers(name: str, text: str, before: str) -> str:
    """Return the text with the server lists of an earlier one, wherever both have them.

    Raises:
        Invalid: one of them cannot be parsed.
        Conflict: the text cannot be edited safely.
    """
    if name.endswith(".toml"):
        return _restore_toml(name, text, before)
    spans, spans_before = value_spans(text), value_spans(before)
    paths = [servers.path for servers in parse_server_lists(name, before)]
    for path in sorted((path for path in paths if path in spans), key=lambda one: spans[one], reverse=True):
        (start, end), (start_before, end_before) = spans[path], spans_before[path]
        text = text[:start] + before[start_before:end_before] + text[end:]
    return text


def _replace_in_toml(name: str, text: str, removed: Container[str], entry: Mapping[str, Any]) -> str:
    expected = _parse(name, text).value
    listed = {one: server for one, server in expected[_TOML_KEY].items() if one not in removed and one != SERVER_NAME}
    expected[_TOML_KEY] = listed | {SERVER_NAME: dict(entry)}
    table = format_table((_TOML_KEY, SERVER_NAME), entry)
    return _checked_toml(
        name, replace_tables(text, lambda path: _server_of(path) not in (None, *listed), table), expected
    )


def _restore_toml(name: str, text: str, before: str) -> str:
    now = _parse(name, text).value
    expected = now | {_TOML_KEY: _parse(name, before).value[_TOML_KEY]}
    kept = set(now[_TOML_KEY]) - {SERVER_NAME}
    tables = select_tables(before, lambda path: _server_of(path) not in (None, *kept))
    return _checked_toml(name, replace_tables(text, lambda path: _server_of(path) == SERVER_NAME, tables), expected)


def _server_of(path: TablePath) -> str | None:
    """Return the server that a table describes, or that a table within its own does."""
    return path[1] if len(path) > 1 and path[0] == _TOML_KEY else None


def _checked_toml(name: str, text: str, expected: Any) -> str:
    """Return the text if it says what is expected: servers may be written in other ways than as tables."""
    with suppress(Invalid):
        if _parse(name, text).value == expected:
            return text
    raise Conflict(
        f"{name} cannot be edited without changing something else in it",
        code="import.cannot_edit",
        hint="edit it by hand; an import that replaces nothing prints the lines to paste",
    )
