"""What may be a key in another program's list of MCP servers stays out of the manifest."""

from __future__ import annotations

import pytest
from tests.manifest.documents import imported, read_json, the_only_error

from paddock.manifest.capability import NetworkAccess
from paddock.manifest.dialects.mcp_user_config import ImportedServer
from paddock.manifest.model import CommandRuntime, RemoteRuntime
from paddock.manifest.native_writer import to_yaml

SECRET = "sk-live-0123456789"


def assert_hidden(plugin: ImportedServer, secret: str = SECRET) -> None:
    assert secret not in repr(plugin)
    assert secret not in repr(plugin.manifest)
    assert secret not in to_yaml(plugin.manifest)
    assert any(secret in str(value) for value in plugin.values.values())


def test_a_key_in_the_environment_moves_into_the_configuration() -> None:
    plugin = imported({"command": "npx", "args": ["-y", "@acme/server"], "env": {"ACME_KEY": SECRET, "PORT": 8080}})

    assert_hidden(plugin)
    assert plugin.values == {"ACME_KEY": SECRET, "PORT": "8080"}
    assert plugin.manifest.runtime == CommandRuntime(
        ("npx", "-y", "@acme/server"),
        "mcp",
        {"ACME_KEY": "${user_config.ACME_KEY}", "PORT": "${user_config.PORT}"},
    )
    assert plugin.manifest.system_config_schema == {
        "type": "object",
        "properties": {
            "ACME_KEY": {"type": "string", "x-secret": True},
            "PORT": {"type": "string", "x-secret": True},
        },
        "additionalProperties": False,
        "required": ["ACME_KEY", "PORT"],
    }


@pytest.mark.parametrize("text", ["${ACME_KEY}", "${env:ACME_KEY}"])
def test_a_variable_stays_a_variable_that_our_own_file_will_fill(text: str) -> None:
    plugin = imported({"command": "x", "args": ["--url", text], "env": {"KEY": text}})

    assert plugin.values == {"ACME_KEY": "${ACME_KEY}"}
    assert plugin.manifest.runtime == CommandRuntime(
        ("x", "--url", "${user_config.ACME_KEY}"), "mcp", {"KEY": "${user_config.ACME_KEY}"}
    )


def test_a_fallback_of_a_variable_is_taken_as_its_value() -> None:
    plugin = imported({"command": "x", "env": {"KEY": "${ACME_KEY:-" + SECRET + "}"}})

    assert_hidden(plugin)


@pytest.mark.parametrize("text", [f"{SECRET}${{X}}", f"${{X}}{SECRET}", f"{SECRET}${{", f"a ${{X}} {SECRET} ${{Y}}"])
def test_a_key_beside_a_variable_is_moved_too(text: str) -> None:
    assert_hidden(imported({"command": "x", "env": {"KEY": text}}))


def test_a_literal_that_looks_like_a_variable_of_ours_means_itself() -> None:
    assert imported({"command": "x", "env": {"KEY": "a${b"}}).values == {"KEY": "a$${b"}


@pytest.mark.parametrize(
    "args",
    [
        ["--api-key", SECRET],
        [f"--api-key={SECRET}"],
        ["--header", f"Authorization: Bearer {SECRET}"],
        ["-t", "x", "--ACME_TOKEN", SECRET],
    ],
)
def test_a_key_given_as_an_option_is_moved_too(args: list[str]) -> None:
    assert_hidden(imported({"command": "npx", "args": args}))


def test_options_that_name_no_key_stay_as_they_are() -> None:
    args = ["-y", "server", "--port", "80", "--token", "--verbose", "/path"]

    assert imported({"command": "npx", "args": args}).manifest.runtime == CommandRuntime(("npx", *args), "mcp")


def test_a_remote_server_is_a_connection_to_one_host_and_its_headers_are_kept_apart() -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "X-Region": "${REGION}"}
    plugin = imported({"type": "http", "url": "https://mcp.example:8443/v1", "headers": headers})

    assert_hidden(plugin)
    assert not plugin.manifest.caged
    assert plugin.manifest.capabilities == (NetworkAccess("mcp.example", 8443),)
    assert plugin.manifest.runtime == RemoteRuntime(
        "https://mcp.example:8443/v1",
        "streamable-http",
        {"Authorization": "${user_config.Authorization}", "X-Region": "${user_config.REGION}"},
    )


def test_a_header_that_only_refers_to_a_variable_says_so_in_the_manifest() -> None:
    plugin = imported({"url": "https://mcp.example/", "headers": {"Authorization": "Bearer ${TOKEN}"}})

    assert plugin.manifest.runtime == RemoteRuntime(
        "https://mcp.example/", "streamable-http", {"Authorization": "Bearer ${user_config.TOKEN}"}
    )


def test_a_key_in_the_address_is_moved_and_the_transport_is_kept() -> None:
    plugin = imported({"type": "sse", "url": f"https://mcp.example/sse?apiKey={SECRET}&v=${{V}}"})

    assert_hidden(plugin)
    assert plugin.manifest.runtime == RemoteRuntime(
        "https://mcp.example/sse?apiKey=${user_config.apiKey}&v=${user_config.V}", "sse"
    )


def test_values_whose_names_collide_stay_two_values() -> None:
    plugin = imported(
        {"command": "x", "args": ["--A_B", "${input:KEY}"], "env": {"KEY": "one", "K": "${input:KEY}", "K2": "${KEY}"}},
        inputs=[{"id": "KEY", "type": "promptString"}],
    )

    assert sorted(str(value) for value in plugin.values.values()) == ["${KEY}", "one"]
    assert plugin.manifest.system_config_schema is not None
    assert len(plugin.manifest.system_config_schema["properties"]) == 3


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (["run", "-e", f"GITHUB_TOKEN={SECRET}", "image"], ["run", "-e", "GITHUB_TOKEN=${user_config.GITHUB_TOKEN}"]),
        (["-e", f"REGION={SECRET}"], ["-e", "REGION=${user_config.REGION}"]),
        ([f"-eX={SECRET}"], ["-eX=${user_config.X}"]),
        ([f"--env=API_KEY={SECRET}"], ["--env=API_KEY=${user_config.API_KEY}"]),
        ([f"APP_PASSWORD={SECRET}"], ["APP_PASSWORD=${user_config.APP_PASSWORD}"]),
        ([f"postgresql://u:{SECRET}@h/db"], ["postgresql://u:${user_config.password}@h/db"]),
        (["--db", f"redis://:{SECRET}@h"], ["--db", "redis://:${user_config.password}@h"]),
        (["-k", SECRET], ["-k", "${user_config.k}"]),
        (["-H", f"Authorization: Bearer {SECRET}"], ["-H", "Authorization: ${user_config.Authorization}"]),
        ([f"https://h.example/mcp?api_key={SECRET}&v=1"], ["https://h.example/mcp?api_key=${user_config.api_key}&v=1"]),
    ],
)
def test_a_key_among_the_arguments_is_moved_and_what_is_around_it_stays(args: list[str], kept: list[str]) -> None:
    plugin = imported({"command": "npx", "args": args})

    assert_hidden(plugin)
    assert isinstance(plugin.manifest.runtime, CommandRuntime)
    assert list(plugin.manifest.runtime.command[1 : 1 + len(kept)]) == kept


@pytest.mark.parametrize(
    "key",
    [
        *("sk-ant-api03-abcdef", "sk-proj-0123456789abcdef", "ghp_0123456789abcdefABCDEF", "github_pat_11ABCDEFG0"),
        *("xoxb-1234567890-abcdef", "AKIAIOSFODNN7EXAMPLE", "glpat-abcdefghij1234567890", "npm_0123456789abcdef0123"),
        *("AIzaSyA0123456789abcdefghijk", "hf_abcdefghijklmnopqrst", "sk_live_0123456789"),
    ],
)
def test_a_key_is_known_by_how_its_service_begins_it(key: str) -> None:
    assert_hidden(imported({"command": "npx", "args": ["run", key]}), key)
    assert_hidden(imported({"command": "npx", "args": [f"--with:{key},x"]}), key)


def test_an_address_that_lets_in_whoever_knows_it_is_moved() -> None:
    path = "YTk4ZGM3NjItNDMyMS00MTIz"
    remote = imported({"url": f"https://mcp.example/api/s/{path}/mcp?v=1"})

    assert_hidden(remote, path)
    assert isinstance(remote.manifest.runtime, RemoteRuntime)
    assert remote.manifest.runtime.url == "https://mcp.example/api/s/${user_config.path}/mcp?v=${user_config.v}"
    assert_hidden(imported({"command": "npx", "args": ["mcp-remote", f"https://mcp.example/{path}"]}), path)


@pytest.mark.parametrize(
    "args",
    [
        ["run", "-i", "--rm", "-v", "/keys:/keys", "keycloak:latest", "--name=docs", "LEVEL=info"],
        ["-y", "@acme/token-server@1.2.3", "https://github.com/acme/a-very-long-repository-name/tree/main", "sk-learn"],
        ["postgresql://localhost/db", "file:///srv/x", "user@host", "npm_config_registry", "--port=80"],
    ],
)
def test_arguments_that_look_like_no_key_stay_as_they_are(args: list[str]) -> None:
    plugin = imported({"command": "npx", "args": args})

    assert (plugin.manifest.runtime, plugin.values) == (CommandRuntime(("npx", *args), "mcp"), {})


def test_two_values_of_one_name_stay_two() -> None:
    plugin = imported({"command": "x", "args": ["--token", "one", "--token", "two", "--token", "one"]})

    assert plugin.values == {"token": "one", "token_2": "two"}
    assert isinstance(plugin.manifest.runtime, CommandRuntime)
    assert plugin.manifest.runtime.command[2::2] == (
        *("${user_config.token}", "${user_config.token_2}"),
        "${user_config.token}",
    )


def test_a_password_in_a_remote_address_is_called_what_it_is() -> None:
    error = the_only_error(read_json("mcp.json", {"mcpServers": {"it": {"url": "https://user:pw@a.example/x"}}}))

    assert error.message == "has a name or password in it"
    assert "header" in error.hint


def test_a_file_of_variables_is_said_not_to_be_read() -> None:
    reading = read_json("mcp.json", {"mcpServers": {"it": {"command": "x", "envFile": ".env"}}})

    (warning,) = reading.warnings
    assert (warning.path, warning.code, warning.line) == ("mcpServers.it.envFile", "env_file", 5)
    assert "'env'" in warning.hint


@pytest.mark.parametrize("text", ["sk-", "-eyJ-", "key", "-key", "://:", "?a&", "/" + "a" * 30, "http://", "-e"])
def test_a_text_made_to_be_searched_for_long_is_read_before_the_test_runs_out_of_time(text: str) -> None:
    assert imported({"command": "x", "args": [(text * 4096)[:4096]] * 200}).manifest.name == "it"
