"""The registry's server.json: packages that can be launched, and remotes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import read_json, sound, the_only_error, warned

from paddock.manifest.capability import NetworkAccess
from paddock.manifest.model import CommandRuntime, RemoteRuntime
from paddock.manifest.read import ManifestResult


def server(**changes: Any) -> ManifestResult:
    base = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-09-29/server.schema.json",
        "name": "io.github.acme/weather",
        "description": "Weather.",
        "version": "1.2.0",
        "repository": {"url": "https://example.com/acme/weather", "source": "github"},
    }
    return read_json("server.json", {key: value for key, value in (base | changes).items() if value is not None})


def package(kind: str, **more: Any) -> dict[str, Any]:
    stdio = {"type": "stdio"}
    return {"registryType": kind, "identifier": "acme-weather", "version": "1.2.0", "transport": stdio} | more


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("npm", ("npx", "-y", "acme-weather@1.2.0")),
        ("pypi", ("uvx", "acme-weather==1.2.0")),
        ("oci", ("docker", "run", "-i", "--rm", "acme-weather:1.2.0")),
        ("nuget", ("dnx", "acme-weather@1.2.0")),
    ],
)
def test_a_package_of_each_registry_is_launched_at_its_version(kind: str, command: tuple[str, ...]) -> None:
    reading = server(packages=[package(kind)])
    manifest = sound(reading)

    assert [problem.code for problem in reading.warnings] in (["fetched_at_start"], ["launcher"])
    assert (manifest.name, manifest.title) == ("io-github-acme-weather", "io.github.acme/weather")
    assert manifest.homepage == "https://example.com/acme/weather"
    assert manifest.runtime == CommandRuntime(command, "mcp")


def test_arguments_and_variables_become_fields_a_person_fills_in() -> None:
    manifest = sound(
        server(
            packages=[
                package(
                    "npm",
                    runtimeHint="bunx",
                    runtimeArguments=[{"type": "named", "name": "--silent"}],
                    packageArguments=[
                        {"type": "positional", "value": "serve"},
                        {"type": "positional", "valueHint": "folder", "isRequired": True},
                        {"type": "named", "name": "--units", "default": "metric", "choices": ["metric", "imperial"]},
                        {
                            "type": "named",
                            "name": "--auth",
                            "value": "Bearer {key}",
                            "variables": {"key": {"isSecret": True}},
                        },
                    ],
                    environmentVariables=[
                        {"name": "ACME_KEY", "description": "Your key", "isRequired": True, "isSecret": True},
                        {"name": "MODE", "value": "fast"},
                    ],
                )
            ]
        )
    )

    assert manifest.runtime == CommandRuntime(
        (
            *("bunx", "--silent", "acme-weather@1.2.0", "serve", "${user_config.folder}"),
            *("--units", "${user_config.units}", "--auth", "Bearer ${user_config.key}"),
        ),
        "mcp",
        {"ACME_KEY": "${user_config.ACME_KEY}", "MODE": "fast"},
    )
    assert manifest.system_config_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["folder", "ACME_KEY"],
        "properties": {
            "folder": {"type": "string"},
            "units": {"type": "string", "default": "metric", "enum": ["metric", "imperial"]},
            "key": {"type": "string", "x-secret": True},
            "ACME_KEY": {"type": "string", "description": "Your key", "x-secret": True},
        },
    }


def test_a_remote_is_taken_where_no_package_can_be_launched() -> None:
    token = {"name": "Authorization", "isRequired": True, "isSecret": True}
    remote = {"type": "sse", "url": "https://mcp.example/{tenant}", "headers": [token], "variables": {"tenant": {}}}
    manifest = sound(server(packages=[package("mcpb")], remotes=[remote], title="Weather"))

    assert (manifest.title, manifest.caged) == ("Weather", False)
    assert manifest.capabilities == (NetworkAccess("mcp.example", 443),)
    assert manifest.runtime == RemoteRuntime(
        "https://mcp.example/${user_config.tenant}", "sse", {"Authorization": "${user_config.Authorization}"}
    )


def test_a_server_that_cannot_be_started_loads_and_says_so() -> None:
    reading = server(packages=[package("npm", transport={"type": "sse", "url": "http://localhost"})])

    assert sound(reading).runtime is None
    assert warned(reading) == ["no_package"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"name": "weather", "packages": []}, "name"),
        ({"version": "latest"}, "version"),
        ({"description": None}, "description"),
        ({"packages": [{"identifier": "x"}]}, "packages[0].registryType"),
        ({"remotes": [{"type": "http", "url": "https://a.example"}]}, "remotes[0].type"),
        ({"remotes": [{"type": "sse", "url": "https://{host}/x"}]}, "remotes[0].url"),
        (
            {"packages": [package("npm", environmentVariables=[{"name": "A B", "value": "x"}])]},
            'packages[0].environmentVariables["A B"]',
        ),
    ],
)
def test_a_description_that_cannot_be_right_is_refused_where_it_is_wrong(changes: dict[str, Any], path: str) -> None:
    assert the_only_error(server(**changes)).path == path
