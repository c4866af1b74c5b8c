"""Settings of MCP clients with Paddock in place of their servers: everything else stays as somebody wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.core.errors import Conflict
from paddock.manifest.client_config import is_paddock, replace_with_paddock, stdio_entry
from paddock.manifest.syntax.json_document import parse_json, value_spans

ENTRY = stdio_entry("mcp-servers", {})
EDITOR = """{
    // What the agent may use.
    "inputs": [{"id": "key", "type": "promptString"}], /* asked for */
    "servers": {
        "time": {"command": "uvx", "args": ["mcp-server-time"]}, // "servers": {}
        "git": {"type": "stdio", "command": "mcp-server-git"},
    },
    "sandbox": {"servers": {"time": 1}}, // stays
}
"""


def test_what_was_taken_gives_way_and_comments_and_other_keys_stay() -> None:
    written = replace_with_paddock("mcp.json", EDITOR, {"time"}, stdio_entry("vscode-mcp", {}))

    before, _, rest = EDITOR.partition('    "servers": {')
    assert written.startswith(before)
    assert written.endswith(rest[rest.index('    "sandbox"') :])
    assert parse_json("mcp.json", written).value["servers"] == {
        "git": {"type": "stdio", "command": "mcp-server-git"},
        "paddock": {"type": "stdio", "command": "paddock", "args": ["mcp"]},
    }
    assert '\n        "paddock": {\n            "type"' in written  # indented as the file is


def test_servers_of_single_projects_are_replaced_where_they_stand() -> None:
    one, two = {"mcpServers": {"a": {"command": "a"}}}, {"mcpServers": {"b": {"command": "b"}}}
    text = json.dumps({"projects": {"/one": one, "/two": two}, "theme": "dark"})

    projects = json.loads(replace_with_paddock(".claude.json", text, {"a"}, ENTRY))["projects"]

    assert projects == {"/one": {"mcpServers": {"paddock": ENTRY}}, "/two": two}


def test_nothing_else_that_is_called_paddock_is_overwritten() -> None:
    text = json.dumps({"mcpServers": {"paddock": {"command": "horse"}, "a": {"command": "a"}}})
    with pytest.raises(Conflict) as refused:
        replace_with_paddock("mcp.json", text, {"a"}, ENTRY)
    assert refused.value.error_code == "import.name_taken"


@pytest.mark.parametrize(
    ("server", "own"),
    [
        (ENTRY, True),
        ({"command": "/opt/bin/paddock", "args": ["mcp", "--as", "user:ann"]}, True),
        ({"command": "paddock", "args": ["serve"]}, False),
        ({"command": "paddock"}, False),
        ({"url": "https://example.org/mcp"}, False),
        (["paddock", "mcp"], False),
    ],
)
def test_paddock_knows_itself_among_servers(server: Any, own: bool) -> None:
    assert is_paddock(server) is own


NAMES = st.text(min_size=1, max_size=8)
SERVERS = st.dictionaries(
    NAMES, st.fixed_dictionaries({"command": NAMES, "args": st.lists(NAMES, max_size=2)}), max_size=4
)


@given(SERVERS, st.dictionaries(NAMES, st.recursive(NAMES | st.none(), st.lists, max_leaves=5)), st.integers(0, 4))
def test_whatever_the_settings_are_only_the_list_of_servers_changes(
    servers: dict[str, Any], others: dict[str, Any], indent: int
) -> None:
    servers = {name: one for name, one in servers.items() if name != "paddock"}
    others = {name: one for name, one in others.items() if name not in ("mcpServers", "servers", "projects", "mcp")}
    value = {**others, "mcpServers": servers}
    text = json.dumps(value, indent=indent or None)
    taken = set(list(servers)[::2])

    written = json.loads(replace_with_paddock("claude_desktop_config.json", text, taken, ENTRY))

    kept = {name: one for name, one in servers.items() if name not in taken}
    assert written == {**others, "mcpServers": kept | ({"paddock": ENTRY} if taken else {})}


@given(st.recursive(st.none() | NAMES | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)))
def test_every_object_and_list_is_found_where_it_stands(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    for path, (start, end) in value_spans(text).items():
        found = value
        for step in path:
            found = found[step]
        assert json.loads(text[start:end]) == found
