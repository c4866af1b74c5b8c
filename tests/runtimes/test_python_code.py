"""Plugins that are Python code, each in a worker in a cage of its own, called through the host."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.packages import write_file, write_json
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, Host, open_host
from paddock.core.errors import Invalid, PluginError
from paddock.plugins.dialects.envelope import OutputInvalid
from paddock.plugins.manage.enable import enable

EXAMPLES = Path(__file__).parents[2] / "examples"
LETTER = {"student": {"name": "Ada", "field": "optics"}, "professor": {"name": "Noether"}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def take(home: Home, package: Path, name: str) -> None:
    home.take(package)
    home.changing(lambda plugins: enable(plugins, name))


def shu(folder: Path, code: str, **fields: Any) -> Path:
    write_json(
        folder / "manifest.yaml",
        {"name": "ours", "version": "1.0.0", "entrypoints": {"ours": "ours.plugin:Plugin"}, **fields},
    )
    write_file(folder / "ours" / "__init__.py", "")
    write_file(folder / "ours" / "plugin.py", code)
    return folder


def kernel(folder: Path, kind: str, code: str, capabilities: tuple[str, ...] = ()) -> Path:
    about = {"name": "Our.Thing", "type": kind, "version": "1.0.0", "description": "x", "owner": "us", "effects": []}
    write_json(folder / "manifest.json", about)
    runtime = {"paddock": 1, "runtime": {"module": "thing:run"}, "capabilities": list(capabilities)}
    write_json(folder / "paddock.yaml", runtime)
    write_file(folder / "thing.py", code)
    return folder


@asynccontextmanager
async def opened(home: Home) -> AsyncGenerator[Host, None]:
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        yield host


async def test_the_examples_of_both_documents_answer_as_they_are_written(home: Home) -> None:
    take(home, EXAMPLES / "kernel-email-draft", "Email.GenerateDraft")
    take(home, EXAMPLES / "kernel-switchboard", "Switchboard")
    take(home, EXAMPLES / "shu-notes", "shu_notes")
    async with opened(home) as host:
        draft = await patiently(host.call("Email.GenerateDraft", LETTER))
        assert (draft["status"], "Noether" in str(draft["result"])) == ("succeeded", True)
        asked = {"intent": {"intent_type": "Funding.Outreach.Email.Generate"}, "context": {}}
        assert (await patiently(host.call("Switchboard", asked)))["kind"] == "needs_context"
        assert await patiently(host.call("shu_notes", {})) == {"status": "success", "data": {"notes": []}}


@pytest.mark.req("S-01", "get_schema")
@pytest.mark.req("S-01", "get_output_schema")
async def test_schemas_that_code_computes_are_held_on_both_sides(home: Home, tmp_path: Path) -> None:
    code = """
class Plugin:
    def get_schema(self):
        return {"type": "object", "properties": {name: {"type": "integer"} for name in ("a", "b")}}
    def get_output_schema(self):
        return dict(type="object", required=["sum"])
    async def execute(self, params, context, host):
        return {"status": "success", "data": {"sum": sum(params.values())} if params["a"] else {}}
"""
    take(home, shu(tmp_path / "p", code), "ours")
    async with opened(home) as host:
        assert (await patiently(host.call("ours", {"a": 1, "b": 2})))["data"] == {"sum": 3}
        with pytest.raises(Invalid) as refused:
            await host.call("ours", {"a": "one", "b": None})
        assert {problem.path for problem in refused.value.problems} == {"a", "b"}
        with pytest.raises(OutputInvalid):
            await host.call("ours", {"a": 0})


@pytest.mark.req("S-01", "an async iterator is a stream")
async def test_an_async_iterator_is_streamed_and_ends_with_its_result(home: Home, tmp_path: Path) -> None:
    code = """
class Plugin:
    async def execute(self, params, context, host):
        for number in range(3):
            yield {"type": "progress", "progress": number}
        yield {"status": "success", "data": {"user": context["user_id"]}}
"""
    take(home, shu(tmp_path / "p", code), "ours")
    told: list[Mapping[str, Any]] = []
    async with opened(home) as host:
        result = await patiently(host.call("ours", {}, on_event=told.append))
        assert (result["status"], result["data"]["user"]) == ("success", "local:operator")
    assert [event["progress"] for event in told] == [0, 1, 2]


@pytest.mark.req("S-02")
@pytest.mark.req("S-04")
async def test_an_envelope_that_says_error_fails_the_call_with_the_plugins_words(home: Home, tmp_path: Path) -> None:
    code = """
class Plugin:
    def execute(self, params, context, host):
        return {"status": "error", "error": {"code": "quota", "message": "no more today"}, "diagnostics": ["inner"]}
"""
    take(home, shu(tmp_path / "p", code), "ours")
    async with opened(home) as host:
        with pytest.raises(PluginError, match="no more today") as failed:
            await patiently(host.call("ours", {}))
        assert failed.value.details["plugin_code"] == "quota"
        assert "diagnostics" not in failed.value.details["envelope"]
        with pytest.raises(PluginError) as failed:
            await patiently(host.call("ours", {"debug": True}))
        assert failed.value.details["envelope"]["diagnostics"] == ["inner"]


@pytest.mark.req("S-09", "frame")
async def test_what_it_declared_is_served_by_the_host_and_nothing_else(home: Home, tmp_path: Path) -> None:
    # `execute` reads; writing is what actions are for.
    code = """
class Plugin:
    async def execute(self, params, context, host):
        found = {"kept": await host.storage.get("key")}
        for name, asked in (("put", host.storage.put("key", 1)), ("cached", host.cache.get("key"))):
            try:
                await asked
            except Exception as error:
                found[name] = type(error).__name__
        return {"status": "success", "data": found}
"""
    take(home, shu(tmp_path / "p", code, capabilities=["storage"]), "ours")
    async with opened(home) as host:
        result = await patiently(host.call("ours", {}))
    assert result["data"] == {"kept": None, "put": "CapabilityDenied", "cached": "CapabilityDenied"}


@pytest.mark.req("K-01", "a tool writes nothing and reads through the host")
async def test_a_tool_reaches_no_network_and_writes_nowhere_but_in_its_own_memory(home: Home, tmp_path: Path) -> None:
    code = """
import os, socket
def run(request):
    found = {}
    try:
        socket.create_connection(("192.0.2.1", 80), 2)
    except OSError as error:
        found["network"] = True
    for place in ("/etc", os.path.dirname(__file__), "/usr"):
        found[place] = os.access(place, os.W_OK)
    return {"result": [found["network"], [place for place, open_ in found.items() if open_ and place != "network"]]}
"""
    take(home, kernel(tmp_path / "p", "tool", code), "Our.Thing")
    async with opened(home) as host:
        assert (await patiently(host.call("Our.Thing", {})))["result"] == [True, []]


@pytest.mark.req("K-01", "a tool writes nothing and reads through the host")
@pytest.mark.req("K-01", "an adapter never writes")
@pytest.mark.parametrize("kind", ["tool", "adapter"])
async def test_what_only_reads_may_read_artifacts_and_not_keep_any(home: Home, tmp_path: Path, kind: str) -> None:
    code = """
async def run(request, host):
    try:
        return {"result": {"kept": await host.artifacts.put(b"for the next call")}}
    except Exception as error:
        return {"result": {"denied": type(error).__name__}}
"""
    take(home, kernel(tmp_path / "p", kind, code, ("host:artifacts",)), "Our.Thing")
    async with opened(home) as host:
        assert (await patiently(host.call("Our.Thing", {})))["result"] == {"denied": "CapabilityDenied"}


async def test_code_that_cannot_be_loaded_says_why_where_people_look(home: Home, tmp_path: Path) -> None:
    take(home, shu(tmp_path / "p", "import no_such_module\nclass Plugin: ...\n"), "ours")
    async with opened(home) as host:
        with pytest.raises(PluginError, match="no_such_module"):
            await patiently(host.call("ours", {}))
