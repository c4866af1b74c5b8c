"""Settings that name a launcher: the package it would fetch is pinned, shown and installed in its stead."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.environments.looking import environments, printed
from tests.environments.shops import NpmRegistry, PythonIndex

from fixtures.commands import Paddock
from fixtures.packages import write_json
from paddock.host.wiring.local_store import open_local_store
from paddock.manifest.model import CommandRuntime
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import current_versions

# The least that speaks MCP: one tool, which tells what the server was started with.
SPEAKING = """
import json, os, sys

TOOL = {"name": "tell", "inputSchema": {"type": "object"}}


def answer(method, params):
    if method == "initialize":
        about = {"name": "tiny", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        words = " ".join([*sys.argv[1:], os.environ["WEATHER_MODE"]])
        return {"content": [{"type": "text", "text": words}]}
    return {}


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def runtime(paddock: Paddock, name: str) -> CommandRuntime:
    """What was consented to."""
    with open_local_store(paddock.environment, paddock.home) as host:
        found = manifest_of(host.plugins.database.read(current_versions)[name]).runtime
    assert isinstance(found, CommandRuntime)
    return found


def settings(folder: Path, **servers: dict[str, Any]) -> Path:
    return write_json(folder / "mcp.json", {"mcpServers": servers})


@pytest.mark.slow
def test_a_server_that_npx_would_fetch_is_pinned_and_built_with_its_arguments_and_its_key(
    paddock: Paddock, registry: NpmRegistry, tmp_path: Path
) -> None:
    args = ["-y", "@tests/tiny-server@1.0.0", "--mode", "fast", "--api-key", "sk-live-canary"]
    server = {"command": "npx", "args": args, "env": {"WEATHER_KEY": "canary-key"}}
    file = settings(tmp_path, Weather=server)
    waits = paddock.quickly("import", file, "--json", code=4)
    assert "npm:@tests/tiny-server@1.0.0" in waits.err
    assert "exactly version 1.0.0, and 1 dependency" in waits.err
    assert environments(paddock) == []

    said = paddock.quickly("import", file, "--yes", "--json")
    [done] = said.json["imported"]
    assert (done["name"], done["version"], done["package"]) == ("weather", "1.0.0", "npm:@tests/tiny-server@1.0.0")
    assert runtime(paddock, "weather").command == (
        *("environment:tiny-server", "--mode", "fast", "--api-key", "${user_config.api_key}"),
    )
    written = tomllib.loads(paddock.local.read_text())["plugins"]["weather"]
    assert written["WEATHER_KEY"] == "${secret:plugin/weather/WEATHER_KEY}"
    assert "canary" not in paddock.local.read_text()
    assert "canary" not in said.err
    assert printed(paddock, "weather") == "42"
    paddock.quickly("plugin", "enable", "weather", "--no-start")  # it prints, and serves nothing

    assert paddock.quickly("import", file, "--yes", "--json").json["imported"][0]["action"] == "unchanged"
    registry.package("@tests/tiny-server", "1.1.0", description="Answers")
    upgraded = paddock.quickly("plugin", "upgrade", "weather", "--ref", "1.1.0", "--yes", "--json").json
    assert upgraded["version"] == "1.1.0"
    assert runtime(paddock, "weather").command[-1] == "${user_config.api_key}"


def test_a_server_that_uvx_would_fetch_answers_from_its_cage_with_its_arguments_and_its_variable(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    index.wheel("speaking", modules={"speaking.py": SPEAKING})
    server = {"command": "uvx", "args": ["speaking", "--zone", "UTC"], "env": {"WEATHER_MODE": "fast"}}
    paddock.quickly("import", settings(tmp_path, Weather=server), "--yes")
    paddock.quickly("plugin", "enable", "weather")
    said = paddock("call", "weather.tell", "--params", "{}", "--json").json
    assert said["result"]["content"][0]["text"] == "--zone UTC fast"


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("/home/me/.local/bin/uvx", ["--from", "tiny-server==1.0.0", "tiny-server"]),
        ("uv", ["tool", "run", "--with", "tiny-lib>=2", "tiny-server@latest"]),
    ],
)
def test_a_python_package_that_would_be_fetched_becomes_the_same_plugin_whatever_fetches_it(
    paddock: Paddock, index: PythonIndex, tmp_path: Path, command: str, args: list[str]
) -> None:
    file = settings(tmp_path, Time={"command": command, "args": [*args, "--zone", "UTC"]})
    [done] = paddock.quickly("import", file, "--capability", "write:fs:config:/", "--yes", "--json").json["imported"]
    assert done["version"] == "1.0.0"
    assert runtime(paddock, "time").command == ("environment:tiny-server", "--zone", "UTC")
    assert printed(paddock, "time") == "42"
    assert "write:fs:config:/" in paddock.quickly("plugin", "show", "time").out


@pytest.mark.slow
def test_a_registrys_description_is_installed_as_the_package_it_names(
    paddock: Paddock, registry: NpmRegistry, tmp_path: Path
) -> None:
    package = {"registryType": "npm", "identifier": "@tests/tiny-server", "version": "1.0.0"}
    description = {"name": "io.github.tests/tiny", "description": "Tiny", "version": "3.0.0"}
    description |= {"packages": [package | {"transport": {"type": "stdio"}}]}
    file = write_json(tmp_path / "described" / "server.json", description)
    told = paddock.quickly("plugin", "install", file.parent, "--json", code=4).err
    assert "import the file, which installs that package instead" in told
    paddock.quickly("plugin", "install", file.parent, "--yes")
    refused = paddock.quickly("plugin", "enable", "io-github-tests-tiny", "--json", code=6).error["errors"]
    source = {"source": "npm:@tests/tiny-server@1.0.0", "name": "io-github-tests-tiny"}
    assert any(one.get("action") == {"kind": "plugin.install", "arguments": source} for one in refused)
    paddock.quickly("plugin", "remove", "io-github-tests-tiny", "--yes")

    [done] = paddock.quickly("import", file, "--yes", "--json").json["imported"]
    assert (done["name"], done["version"]) == ("io-github-tests-tiny", "1.0.0")
    assert printed(paddock, "io-github-tests-tiny") == "42"


@pytest.mark.parametrize(
    ("command", "args", "why"),
    [
        ("docker", ["run", "-i", "--rm", "acme/weather"], "docker needs its own daemon"),
        ("npx", ["-c", "acme"], "what -c would change"),
        ("npx", ["-y", "github:acme/weather"], "github:acme/weather is not a package of a registry"),
    ],
)
def test_a_launcher_whose_package_cannot_be_installed_is_told_at_consent_and_not_enabled(
    paddock: Paddock, tmp_path: Path, command: str, args: list[str], why: str
) -> None:
    said = paddock.quickly("import", settings(tmp_path, it={"command": command, "args": args}), "--yes").err
    assert said.count(why) == 1
    assert "install a package of the server (npm:NAME or pypi:NAME)" in said
    refused = paddock.quickly("plugin", "enable", "it", "--json", code=6).error
    [problem] = [one for one in refused["errors"] if one["code"] == "launcher"]
    assert why in problem["message"]


@pytest.mark.slow
def test_a_package_that_is_not_there_keeps_only_its_own_server_out(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    file = settings(
        tmp_path, gone={"command": "uvx", "args": ["absent"]}, time={"command": "uvx", "args": ["tiny-server"]}
    )
    said = paddock.quickly("import", file, "--yes", "--json", code=3)
    assert [one["action"] for one in said.json["imported"]] == ["failed", "installed"]
    assert said.error["code"] == "environment.package_not_found"
