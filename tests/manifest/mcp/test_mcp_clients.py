"""MCP servers as clients list them are imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.manifest.documents import imported, read_json, the_only_error

from fixtures.all_cases import all_cases
from paddock.core.errors import Invalid
from paddock.manifest.capability import NoNetwork
from paddock.manifest.model import CommandRuntime, RemoteRuntime
from paddock.manifest.read import read_bytes, read_each_server


@pytest.mark.req("B-02", "unknown servers run caged")
def test_an_imported_server_is_caged_without_network_and_starts_when_asked_for() -> None:
    manifest = imported({"command": "npx"}).manifest

    assert manifest.caged
    assert (manifest.capabilities, manifest.start) == ((NoNetwork(),), "lazy")


@all_cases(
    "url",
    [
        *(
            "${URL}",
            "https://${HOST}/x",
            "ftp://a.example",
            "mcp.example",
            "https://",
            "https:///x",
            "file:///etc/passwd",
        ),
        *("https://user:pass@a.example/", "https://a.example@b.example/", "https://a.example:80@b.example/"),
        *("https://a b/", "https://a.example:99999/", "https://[::g]/", "https://ex\u0430mple.com/", "https://a_b/"),
    ],
)
def test_a_remote_address_names_its_host_and_nobody(url: str) -> None:
    error = the_only_error(read_json("mcp.json", {"mcpServers": {"it": {"url": url}}}))

    assert (error.path, error.code) == ("mcpServers.it.url", "url")


def test_several_servers_become_several_plugins() -> None:
    reading = read_json("mcp.json", {"mcpServers": {"Git Hub": {"command": "a"}, "files": {"command": "b"}}})

    assert [(one.manifest.name, one.manifest.title) for one in reading.all()] == [("git-hub", "Git Hub"), ("files", "")]
    with pytest.raises(Invalid, match="contains 2 plugins"):
        reading.single()


def test_two_names_that_become_one_are_refused() -> None:
    error = the_only_error(
        read_json("mcp.json", {"mcpServers": {"Git Hub": {"command": "a"}, "git-hub": {"command": "b"}}})
    )

    assert (error.path, error.code) == ("mcpServers.git-hub", "duplicate_name")


def test_a_changed_entry_is_a_new_version_and_a_changed_key_is_not() -> None:
    def version(**server: Any) -> str:
        return imported({"command": "x"} | server).manifest.version

    assert version(env={"K": "one"}) == version(env={"K": "two"})
    assert version(args=["a"]) != version(args=["b"])


VSCODE = b"""{
  // servers of this workspace
  "inputs": [
    {"id": "token", "type": "promptString", "description": "API token", "password": true},
    {"id": "region", "type": "pickString", "default": "eu", "options": ["eu", "us"],},
  ],
  "servers": {
    /* over
       two lines */
    "Acme Docs": {
      "type": "stdio",
      "command": "npx", // not a "comment" in text: "http://x"
      "args": ["-y", "https://example.com//pkg", "${workspaceFolder}/docs"],
      "env": {"TOKEN": "${input:token}", "REGION": "${input:region}", "NOTE": "/* kept */ // kept",},
    },
  },
}
"""


def test_an_editors_file_loads_with_its_comments_commas_and_questions() -> None:
    (plugin,) = read_bytes(".vscode/mcp.json", VSCODE).all()
    manifest = plugin.manifest

    assert manifest.name == "acme-docs"
    assert manifest.runtime == CommandRuntime(
        ("npx", "-y", "https://example.com//pkg", "${user_config.workspaceFolder}/docs"),
        "mcp",
        {
            "TOKEN": "${user_config.token}",
            "REGION": "${user_config.region}",
            "NOTE": "${user_config.NOTE}",
        },
    )
    schema = manifest.system_config_schema
    assert schema is not None
    assert schema["properties"]["token"] == {"type": "string", "description": "API token", "x-secret": True}
    assert schema["properties"]["region"] == {"type": "string", "default": "eu"}
    assert schema["required"] == ["token", "NOTE", "workspaceFolder"]
    assert plugin.values == {"NOTE": "/* kept */ // kept"}


def test_mistakes_below_comments_keep_their_lines() -> None:
    broken = VSCODE.replace(b'"command": "npx",', b'"command": 5,')
    error = the_only_error(read_bytes(".vscode/mcp.json", broken))

    assert (error.path, error.line) == ('servers["Acme Docs"].command', 12)


@pytest.mark.parametrize(
    ("server", "path"),
    [
        ({}, "mcpServers.it"),
        ({"args": ["x"]}, "mcpServers.it"),
        ({"command": ["npx"]}, "mcpServers.it.command"),
        ({"command": "x", "args": "y"}, "mcpServers.it.args"),
        ({"command": "x", "args": [5]}, "mcpServers.it.args[0]"),
        ({"command": "x", "env": ["A=1"]}, "mcpServers.it.env"),
        ({"command": "x", "env": {"A": {}}}, "mcpServers.it.env.A"),
        ({"command": "x", "env": {"A=B": "x"}}, 'mcpServers.it.env["A=B"]'),
        ({"url": "https://a.example", "headers": {"A": 1}}, "mcpServers.it.headers.A"),
        ("npx", "mcpServers.it"),
    ],
)
def test_a_server_that_cannot_be_started_is_refused_where_it_is_wrong(server: Any, path: str) -> None:
    assert the_only_error(read_json("mcp.json", {"mcpServers": {"it": server}})).path == path


@pytest.mark.parametrize("name", ["", "日本", "x" * 201])
def test_a_server_needs_a_name_to_go_by(name: str) -> None:
    assert not read_json("mcp.json", {"mcpServers": {name: {"command": "x"}}}).valid


@pytest.mark.parametrize("name", ["settings.json", "v2.json", ".vscode/mcp.json"])
def test_comments_and_spare_commas_are_read_whatever_the_settings_are_called(name: str) -> None:
    assert [one.manifest.name for one in read_bytes(name, VSCODE).all()] == ["acme-docs"]

    text = b'/* all */ {"mcpServers": {/* one */ "a": {"command": "x", "args": ["y",],}, // two\n}, /**/}'
    assert [one.manifest.name for one in read_bytes(name, text).all()] == ["a"]


def test_a_manifest_of_another_kind_may_hold_no_comments() -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        read_bytes("manifest.json", b'{"name": "x", // no\n "type": "tool"}')


def test_servers_in_an_editors_own_settings_are_found() -> None:
    settings = {"editor.tabSize": 2, "mcp": {"inputs": [], "servers": {"docs": {"command": "x"}, "bad": {}}}}
    reading = read_json("settings.json", settings)

    assert [one.manifest.name for one in reading.plugins] == ["docs", "bad"]
    assert (the_only_error(reading).path, the_only_error(reading).line) == ("mcp.servers.bad", 9)


def test_servers_of_single_projects_are_found_beside_those_for_all() -> None:
    docs, files = {"command": "docs"}, {"command": "files"}
    projects = {"/a": {"mcpServers": {"docs": docs}}, "/b": {"mcpServers": {"docs": docs, "files": files}}, "/c": {}}

    for top in ({}, {"mcpServers": {}}):
        reading = read_json(".claude.json", {"numStartups": 3, **top, "projects": projects})
        assert [one.manifest.name for one in reading.all()] == ["docs", "files"]
    for_all = read_json(".claude.json", {"mcpServers": {"mine": docs, "files": docs}, "projects": projects})
    assert [(one.manifest.name, one.manifest.runtime) for one in for_all.all()] == [
        (name, CommandRuntime(("docs",), "mcp")) for name in ("mine", "files", "docs")
    ]

    projects["/b"]["mcpServers"]["docs"] = {"command": "other"}
    error = the_only_error(read_json(".claude.json", {"projects": projects}))
    assert (error.path, error.code) == ('projects["/b"].mcpServers.docs', "duplicate_name")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings.json", '{"context_servers": {"it": {"source": "custom", "command": "x", "args": ["y"],}}} // z'),
        ("settings.json", '{"context_servers": {"it": {"command": {"path": "x", "args": ["y"]}}}}'),
        ("config.toml", 'when = 2026-01-01\n[mcp_servers.it]\ncommand = "x"\nargs = ["y"]\n'),
    ],
)
def test_servers_of_editors_and_agents_with_formats_of_their_own_are_read(name: str, text: str) -> None:
    (plugin,) = read_bytes(name, text.encode()).all()
    assert plugin.manifest.runtime == CommandRuntime(("x", "y"), "mcp")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "settings.json",
            '{"mcpServers": {"it": {"httpUrl": "https://a.example/", "headers": {"Authorization": "$T"}}}}',
        ),
        (
            "mcp_config.json",
            '{"mcpServers": {"it": {"serverUrl": "https://a.example/", "headers": {"Authorization": "${T}"}}}}',
        ),
        ("config.toml", '[mcp_servers.it]\nurl = "https://a.example/"\nenv_http_headers = {Authorization = "T"}\n'),
    ],
)
def test_a_remote_server_takes_its_key_from_the_environment_in_the_form_of_each_client(name: str, text: str) -> None:
    (plugin,) = read_bytes(name, text.encode()).all()
    assert plugin.manifest.runtime == RemoteRuntime(
        "https://a.example/", "streamable-http", {"Authorization": "${user_config.T}"}
    )
    assert plugin.values == {"T": "${T}"}


def test_servers_of_extensions_are_left_to_their_editor() -> None:
    servers = {"mine": {"command": "x"}, "theirs": {"source": "extension", "settings": {}}, "old": {"settings": {}}}
    assert [one.manifest.name for one in read_json("settings.json", {"context_servers": servers}).all()] == ["mine"]


@pytest.mark.parametrize(
    ("text", "line"), [("a = [", None), ("a = 1\na = 2\n", 2), ("[" * 5_000, 1), ("a = " + "[" * 70 + "]" * 70, None)]
)
def test_a_toml_file_that_is_none_is_refused_with_its_line(text: str, line: int | None) -> None:
    with pytest.raises(Invalid) as refused:
        read_bytes("config.toml", text.encode())
    assert refused.value.problems[0].line == line


def test_each_server_of_a_file_can_be_judged_by_itself(tmp_path: Path) -> None:
    twins = {"Twin": {"command": "x"}, "twin": {"command": "y"}}
    servers = {"Good One": {"command": "x"}, "bad": {"args": []}, "worse": 5, **twins}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))

    read = dict(read_each_server(file))
    assert list(read) == list(servers)
    assert read["Good One"].valid
    assert [{error.path for error in read[title].errors} for title in ("bad", "worse")] == [
        {"mcpServers.bad"},
        {"mcpServers.worse"},
    ]
    assert "duplicate_name" in {error.code for error in read["Twin"].errors}
