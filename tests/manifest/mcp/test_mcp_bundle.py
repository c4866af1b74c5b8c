"""MCP bundles of every version load as their makers wrote them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import BUNDLE, bundle, changed, read_json, sound, the_only_error, warned

from fixtures.all_cases import all_cases
from paddock.manifest.model import CommandRuntime, Dialect

OLDEST: dict[str, Any] = {
    "dxt_version": "0.1",
    "name": "file-reader",
    "version": "0.1.0",
    "description": "Reads files",
    "author": {"name": "Ada", "email": "ada@example.com"},
    "server": {
        "type": "node",
        "entry_point": "server/index.js",
        "mcp_config": {
            "command": "node",
            "args": ["${__dirname}/server/index.js", "${user_config.folder}"],
            "env": {"API_KEY": "${user_config.api_key}"},
        },
    },
    "tools": [{"name": "read_file", "description": "Reads one"}, {"name": "listFiles"}],
    "user_config": {
        "folder": {"type": "directory", "title": "Folder", "required": True, "multiple": True, "default": ["/tmp"]},
        "api_key": {"type": "string", "title": "Key", "description": "From the site", "sensitive": True},
        "depth": {"type": "number", "title": "Depth", "min": 1, "max": 9, "default": 3},
        "quiet": {"type": "boolean", "title": "Quiet", "default": False},
    },
    "keywords": ["files"],
    "license": "MIT",
    "compatibility": {"platforms": ["linux"], "runtimes": {"node": ">=18"}},
}
SECOND = changed(
    OLDEST, dxt_version=None, manifest_version="0.2", privacy_policies=["https://example.com/privacy"], icon="icon.png"
)
THIRD = changed(
    SECOND,
    manifest_version="0.3",
    display_name="File Reader",
    long_description="Reads files, **all** of them.",
    repository={"type": "git", "url": "https://example.com/x.git"},
    icons=[{"src": "icon.png", "size": "64x64", "theme": "dark"}],
    localization={"resources": "mcpb-resources/${locale}.json", "default_locale": "en-US"},
    prompts=[
        {"name": "summarise", "description": "Sums up", "arguments": ["file"], "text": "Sum up ${arguments.file}"}
    ],
    tools_generated=True,
)
FOURTH = changed(
    THIRD,
    manifest_version="0.4",
    server={"type": "uv", "entry_point": "src/server.py", "mcp_config": {"command": "uv", "args": ["run", "server"]}},
    user_config=None,
    _meta={"com.example": {"x": 1}},
)


@pytest.mark.parametrize("document", [OLDEST, SECOND, THIRD, FOURTH], ids=["0.1", "0.2", "0.3", "0.4"])
def test_a_bundle_of_each_version_loads_and_only_uv_is_told_that_it_cannot_start_caged(
    document: dict[str, Any],
) -> None:
    reading = read_json("manifest.json", document)
    manifest = sound(reading)

    assert (reading.form, warned(reading)) == ("mcpb", ["launcher"] if document is FOURTH else [])
    assert (manifest.name, manifest.dialect, manifest.author) == ("file-reader", Dialect.MCP, "Ada")
    assert isinstance(manifest.runtime, CommandRuntime)
    assert manifest.runtime.protocol == "mcp"
    assert [spec.name for spec in manifest.callables] == ["read_file", "listFiles"]
    assert all(spec.effects is None for spec in manifest.callables)


def test_what_a_person_fills_in_becomes_the_system_side_configuration() -> None:
    manifest = sound(read_json("manifest.json", OLDEST))

    assert manifest.system_config_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["folder"],
        "properties": {
            "folder": {
                "type": "array",
                "items": {"type": "string", "title": "Folder", "x-path": "directory"},
                "default": ["/tmp"],
            },
            "api_key": {"type": "string", "title": "Key", "description": "From the site", "x-secret": True},
            "depth": {"type": "number", "title": "Depth", "minimum": 1, "maximum": 9, "default": 3},
            "quiet": {"type": "boolean", "title": "Quiet", "default": False},
        },
    }
    assert manifest.runtime == CommandRuntime(
        ("node", "${__dirname}/server/index.js", "${user_config.folder}"),
        "mcp",
        {"API_KEY": "${user_config.api_key}"},
    )


def test_what_the_bundle_says_for_linux_is_what_counts() -> None:
    config = {
        "command": "server.exe",
        "args": ["--all"],
        "env": {"A": "1", "B": "2"},
        "platform_overrides": {
            "win32": {"command": "win.exe"},
            "linux": {"command": "./server", "args": [], "env": {"B": "3"}},
        },
    }
    manifest = sound(bundle(server={"type": "binary", "mcp_config": config}))
    assert manifest.runtime == CommandRuntime(("./server",), "mcp", {"A": "1", "B": "3"})

    only_command = config | {"platform_overrides": {"linux": {"command": "./server"}}}
    manifest = sound(bundle(server={"type": "binary", "mcp_config": only_command}))
    assert manifest.runtime == CommandRuntime(("./server", "--all"), "mcp", {"A": "1", "B": "2"})


def test_a_display_name_is_the_title_and_an_odd_name_becomes_an_id() -> None:
    assert sound(bundle(display_name="The Weather")).title == "The Weather"
    odd = sound(bundle(name="@acme/Weather Server"))
    assert (odd.name, odd.title) == ("acme-weather-server", "@acme/Weather Server")


def server(**config: Any) -> dict[str, Any]:
    return {"server": {"type": "node", "mcp_config": {"command": "node"} | config}}


@all_cases(
    ("changes", "path"),
    [
        ({"manifest_version": "9.9"}, "manifest_version"),
        ({"server": None}, "server"),
        ({"server": {"type": "perl", "mcp_config": {"command": "perl"}}}, "server.type"),
        ({"server": {"type": "node"}}, "server.mcp_config"),
        (server(command=""), "server.mcp_config.command"),
        (server(args=["${user_config.gone}"]), "server.mcp_config.args"),
        (server(env={"A": "${user_config.gone}"}), "server.mcp_config.env"),
        (server(env={"A B": "x"}), 'server.mcp_config.env["A B"]'),
        (server(env={"PADDOCK_PLUGIN_DIR": "x"}), "server.mcp_config.env.PADDOCK_PLUGIN_DIR"),
        (server(platform_overrides={"linux": {"env": {"A": 1}}}), "server.mcp_config.platform_overrides.linux.env.A"),
        ({"author": {}}, "author.name"),
        ({"version": "1"}, "version"),
        ({"name": "日本"}, "name"),
        ({"user_config": {"x": {"type": "list"}}}, "user_config.x.type"),
        ({"tools": [{"name": "a b"}]}, "tools[0].name"),
        ({"tools": [{"name": "a"}, {"name": "a"}]}, "tools[1].name"),
    ],
)
def test_a_bundle_that_cannot_be_right_is_refused_where_it_is_wrong(changes: dict[str, Any], path: str) -> None:
    error = the_only_error(bundle(**changes))

    assert error.path == path
    assert error.line is not None


def test_a_bundle_that_names_no_version_of_its_format_is_refused() -> None:
    assert (
        "manifest_version" in the_only_error(read_json("manifest.json", changed(BUNDLE, manifest_version=None))).message
    )
