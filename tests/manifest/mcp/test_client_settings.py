"""Settings of MCP clients with Paddock in place of their servers: everything else stays as somebody wrote it."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.core.errors import Conflict
from paddock.manifest.client_config import is_paddock, replace_with_paddock, restore_servers, stdio_entry
from paddock.manifest.syntax.json_document import parse_json, value_spans

ENTRY = stdio_entry("mcp-servers", ["/opt/bin/paddock"], {})
EDITOR = """{
    // What the agent may use.
    "inputs": [{"id": "key", "type": "promptString"}], /* asked for */
    "servers": {
        // the clock
        "time": {"command": "uvx", "args": ["mcp-server-time"]}, // "servers": {}
        "git": {
            "type": "stdio", // mine
            "command": "mcp-server-git",
        },
        "docs": {"command": "docs"}
    },
    "sandbox": {"servers": {"time": 1}}, // stays
}
"""


@pytest.mark.parametrize("removed", [{"time"}, {"git"}, {"docs"}, {"time", "docs"}, {"git", "docs"}])
def test_what_was_taken_gives_way_and_every_other_line_stays(removed: set[str]) -> None:
    written = replace_with_paddock("mcp.json", EDITOR, removed, stdio_entry("vscode-mcp", ["/opt/bin/paddock"], {}))

    own = {"type": "stdio", "command": "/opt/bin/paddock", "args": ["mcp"]}
    before, now = parse_json("mcp.json", EDITOR).value, parse_json("mcp.json", written).value
    kept = {title: server for title, server in before["servers"].items() if title not in removed}
    assert now == before | {"servers": kept | {"paddock": own}}
    assert '\n        "paddock": {\n            "type"' in written  # indented as the file is
    comments = ["// What the agent may use.", "/* asked for */", "// the clock", '// "servers": {}', "// stays"]
    assert all(comment in written for comment in [*comments, *([] if "git" in removed else ["// mine"])])
    assert restore_servers("mcp.json", written, EDITOR) == EDITOR


CODEX = """model = "o3"  # mine

[mcp_servers.time]  # the clock
command = "uvx"
args = ["mcp-server-time"]

[mcp_servers.time.env]
ZONE = "UTC"

# what else there is
[projects."/home/ann"]
trust_level = "trusted"

[mcp_servers.git]
command = "git-mcp"
"""


@pytest.mark.parametrize("removed", [{"time"}, {"git"}, {"time", "git"}])
def test_tables_of_a_toml_file_give_way_and_its_comments_and_other_tables_stay(removed: set[str]) -> None:
    entry = stdio_entry("codex-config", ["/opt/bin/paddock"], {"PADDOCK_HOME": "/srv/home"})
    written = replace_with_paddock("config.toml", CODEX, removed, entry)

    before = tomllib.loads(CODEX)
    kept = {title: server for title, server in before["mcp_servers"].items() if title not in removed}
    assert tomllib.loads(written) == before | {"mcp_servers": kept | {"paddock": entry}}
    assert "# mine" in written and "# what else there is" in written
    added = f'{written}\n[tui]\ntheme = "dark"\n'
    restored = tomllib.loads(restore_servers("config.toml", added, CODEX))
    assert restored == before | {"tui": {"theme": "dark"}}


def test_a_toml_file_that_cannot_be_edited_without_harm_is_left_alone_with_words() -> None:
    text = 'mcp_servers = {time = {command = "uvx"}, git = {command = "git"}}\n'
    with pytest.raises(Conflict) as refused:
        replace_with_paddock("config.toml", text, {"time"}, ENTRY)
    assert refused.value.error_code == "import.cannot_edit"


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
        ({"command": "/usr/bin/python3", "args": ["-m", "paddock.cli", "mcp"]}, True),
        ({"command": {"path": "/opt/bin/paddock", "args": ["mcp"]}}, True),
        ({"command": "/usr/bin/python3", "args": ["-m", "paddock.cli", "serve"]}, False),
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
