"""Settings of plugins, obeyed by a host that runs them: the allowed domains and the timeout of MCP servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.host.conftest import PROGRAM, Home
from tests.runtime.stage import patiently

from fixtures.packages import osqr, write_file, write_json
from paddock import Config, open_host
from paddock.core.errors import Invalid, NotFound
from paddock.plugins.manage.enable import enable
from paddock.plugins.store.listing import list_plugins
from paddock.runtime.lifecycle import PluginState


def coach(root: Path, *hosts: str, capabilities: tuple[str, ...] = ()) -> Path:
    """A plugin of the OSQR dialect that requests these hosts."""
    package = osqr(root, "Coach")
    manifest = json.loads((package / "plugin.yaml").read_text())
    manifest["data_access"]["external_apis"] = hosts
    manifest["capabilities"] = {"tools": [{"name": "say", "description": "Say", "inputSchema": {"type": "object"}}]}
    write_json(package / "plugin.yaml", manifest)
    program = {"runtime": {"command": ["python3", "./main.py"]}, "capabilities": capabilities}
    write_json(package / "paddock.yaml", program)
    write_file(package / "main.py", PROGRAM.format(name="coach", version="1.0.0"))
    return package


def configured(home: Home, text: str) -> Home:
    home.path.mkdir(mode=0o700, exist_ok=True)
    (home.path / "config.toml").write_text(text)
    return home


@pytest.mark.req("O-17", "OSQR_PLUGINS_ALLOWED_DOMAINS")
async def test_an_osqr_plugin_runs_only_while_every_host_it_requests_is_an_allowed_domain(
    home: Home, tmp_path: Path
) -> None:
    home.take(coach(tmp_path / "coach", "api.openai.com", "api.example.com"))
    with pytest.raises(Invalid) as refused:
        home.changing(lambda plugins: enable(plugins, "coach"))
    (problem,) = refused.value.problems
    assert problem.code == "domain_not_allowed"
    assert problem.message.startswith("net:api.example.com:443 ")

    configured(home, '[plugins]\nallowed_domains = ["api.example.com", "api.openai.com"]\n')
    home.changing(lambda plugins: enable(plugins, "coach"))
    async with open_host(Config(home=home.path, environ={})) as host:
        async for status in host.plugins.processes.follow_states():
            if status.state is PluginState.RUNNING:
                break

    configured(home, '[plugins]\nallowed_domains = ["api.example.com"]\n')
    async with open_host(Config(home=home.path, environ={})) as host:
        with pytest.raises(NotFound, match=r"hosts outside plugins\.allowed_domains"):
            await patiently(host.call("coach.say", {"text": "hi"}))
        runtime: Any = (await host.plugins.inventory.show("coach"))["runtime"]
        assert (runtime["state"], runtime["error_code"]) == ("disabled", "plugin.domain_not_allowed")
        with pytest.raises(Invalid, match="coach cannot be enabled yet"):
            await patiently(host.plugins.lifecycle.enable("coach"))


@pytest.mark.parametrize("capability", ["net:*", "host:http"])
def test_an_osqr_plugin_that_requests_every_host_cannot_be_enabled(home: Home, tmp_path: Path, capability: str) -> None:
    home.take(coach(tmp_path / "coach", capabilities=(capability,)))
    with pytest.raises(Invalid) as refused:
        home.changing(lambda plugins: enable(plugins, "coach"))
    assert [problem.code for problem in refused.value.problems] == ["domain_not_allowed"]


def test_the_allowed_domains_do_not_limit_plugins_of_other_dialects(home: Home) -> None:
    states: list[str] = []
    home.install("parrot", capabilities=["net:api.example.com:443"])
    home.changing(lambda plugins: states.extend(one.state for one in list_plugins(plugins)))
    assert states == ["enabled"]


@pytest.mark.req("O-17", "OSQR_PLUGINS_MCP_TIMEOUT_MS")
@pytest.mark.req("O-18", "connection timeout")
async def test_an_mcp_server_that_does_not_answer_fails_after_the_configured_time(home: Home) -> None:
    home.install(
        "silent",
        program="import sys\nfor line in sys.stdin: pass\n",
        runtime={"command": ["python3", "./main.py"], "protocol": "mcp"},
        tools=[],
    )
    configured(home, "[plugins]\nmcp_timeout_ms = 150\n")
    async with open_host(Config(home=home.path, environ={})) as host:
        async for status in host.plugins.processes.follow_states():
            if status.state is PluginState.FAILED:
                break
    assert status.error_code == "initialize.timeout"
    assert "within 0.15 s" in status.reason
