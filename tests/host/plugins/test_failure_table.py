"""What can go wrong with plugins, on a whole host: each failure is noticed, recovered from, and seen by people."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.fixtures.commands import Paddock
from tests.fixtures.paced_loop import hurrying, paced
from tests.fixtures.packages import native
from tests.host.conftest import Home
from tests.runtime.stage import PRELUDE, patiently
from tests.runtime.witness import WELL, on_call

from paddock import Config, Host, open_host
from paddock.core.error_formats import http_status, json_rpc_error
from paddock.core.errors import PaddockError, TimedOut, Unavailable
from paddock.ledger.read.entries import EntryFilter, list_entries
from paddock.runtime.deployment import PluginStatus
from paddock.runtime.lifecycle import PluginState
from paddock.store.database import open_direct

DO_IT = {"name": "do.it", "effects": ["read_only"]}
HARDLY = 0.01  # how fast time passes while something is looked at that lasts for a second


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


class Scene:
    """A host with plugins that misbehave, seen as its API and commands see it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._states = host.plugins.processes.follow_states()

    def status(self, name: str = "actor") -> PluginStatus:
        return next(one for one in self.host.plugins.processes.statuses() if one.key.plugin == name)

    async def until(self, state: PluginState, name: str = "actor") -> PluginStatus:
        while self.status(name).state is not state:
            await patiently(anext(self._states))
        return self.status(name)

    async def failure(self, name: str = "actor", **params: Any) -> PaddockError:
        with pytest.raises(PaddockError) as failed:
            await self.host.call(f"{name}.do.it", params)
        return failed.value

    async def runs_again(self, name: str = "actor") -> None:
        """It is started again without anybody's doing, and answers."""
        with hurrying():
            await self.until(PluginState.SPAWNING, name)
        await self.until(PluginState.RUNNING, name)
        assert await self.host.call(f"{name}.do.it", {"say": "well"}) == {"well": True}

    async def listed(self, name: str = "actor") -> Any:
        """What `plugin list` shows of its process; `plugin show` shows the same."""
        shown: Any = next(row["runtime"] for row in await self.host.plugins.inventory.list_all() if row["name"] == name)
        details: Any = await self.host.plugins.inventory.show(name)
        assert details["runtime"]["state"] == shown["state"]
        return shown


def told(home: Home, kind: str) -> list[dict[str, Any]]:
    """What the ledger has of such events, oldest first, once the host is closed."""
    with open_direct(home.path / "data" / "paddock.db") as database:
        entries = database.read(lambda tx: list_entries(tx, entry_filter=EntryFilter(type=kind), newest_first=False))
    return [entry.data for entry in entries]


@asynccontextmanager
async def playing(home: Home, **scripts: str) -> AsyncGenerator[Scene, None]:
    """A host whose plugins are these scripts."""
    for name, script in scripts.items():
        fields: dict[str, Any] = {"methods": [DO_IT], "tools": [], "timing": {"health_interval_sec": 10}}
        home.install(name, program=as_program(name, script), **fields)
    async with open_host(Config(home=home.path, environ={})) as host:
        scene = Scene(host)
        await host.plugins.processes.wait_settled()
        yield scene


@pytest.mark.req("G-30", "crash")
async def test_a_plugin_that_crashes_is_unavailable_until_it_was_restarted(home: Home) -> None:
    script = on_call('print("the sky fell", file=sys.stderr, flush=True); os._exit(3)')
    async with playing(home, actor=script, other=WELL) as scene:
        with hurrying(HARDLY):
            failed = await scene.failure()
            await scene.until(PluginState.CRASHED)
            meanwhile = await scene.failure(say="well")
            shown = await scene.listed()

        assert [http_status(failed), http_status(meanwhile)] == [502, 502]
        assert isinstance(meanwhile, Unavailable) and meanwhile.retryable
        assert (shown["state"], shown["failures"]) == ("crashed", 1)
        assert shown["reason"] == "it ended with exit status 3; its last log line: the sky fell"
        assert await scene.host.call("other.do.it", {}) == {"well": True}
        await scene.runs_again()
    (crashed,) = told(home, "plugin.crashed")
    assert (crashed["exit_code"], crashed["last_stderr"]) == (3, ["the sky fell"])
    assert [one["name"] for one in told(home, "plugin.spawned")].count("actor") == 2


@pytest.mark.req("G-41")
@pytest.mark.req("G-30", "hang")
async def test_a_plugin_that_hangs_fails_its_call_after_thirty_seconds_and_is_killed_and_restarted(home: Home) -> None:
    async with playing(home, actor=on_call("time.sleep(600)")) as scene:
        with hurrying():
            late = await scene.failure()
        with hurrying(HARDLY):
            await scene.until(PluginState.CRASHED)
            meanwhile = await scene.failure(say="well")
            shown = await scene.listed()

        assert isinstance(late, TimedOut)
        assert json_rpc_error(late)["code"] == -32603
        assert http_status(meanwhile) == 502
        assert (shown["state"], shown["reason"]) == ("crashed", "a call was not answered within 30 s")
        await scene.runs_again()
    (crashed,) = told(home, "plugin.crashed")
    assert crashed["signal"] == 9
    assert [ended["status"] for ended in told(home, "call.ended")] == ["timed_out", "failed", "succeeded"]


@pytest.mark.req("G-30", "health check fails")
async def test_a_plugin_that_is_not_well_three_times_in_a_row_is_ended_and_restarted(home: Home) -> None:
    script = 'hello()\nserve(ping=lambda r: {"status": "poorly"}, do_it=lambda r: {"well": True})'
    async with playing(home, actor=script) as scene:
        with hurrying():
            await scene.until(PluginState.CRASHED)
        with hurrying(HARDLY):
            meanwhile = await scene.failure(say="well")
            shown = await scene.listed()

        assert http_status(meanwhile) == 502
        assert (shown["state"], shown["reason"]) == ("crashed", "it failed three health checks in a row")
        await scene.runs_again()
    failures = [one["consecutive_failures"] for one in told(home, "plugin.health_fail")]
    assert failures == [1, 2, 3]
    assert len(told(home, "plugin.crashed")) == 1


@pytest.mark.req("G-30", "capability overreach")
async def test_a_plugin_that_claims_more_than_it_may_is_ended_for_good_and_its_author_told_what(home: Home) -> None:
    script = 'hello(capabilities_used=["net:evil.example:443"])\nserve(do_it=lambda r: {"well": True})'
    async with playing(home, actor=script) as scene:
        await scene.until(PluginState.FAILED)
        refused = await scene.failure()
        shown = await scene.listed()

        assert (shown["state"], shown["error_code"]) == ("failed", "initialize.capability_overreach")
        assert "net:evil.example:443" in shown["reason"]
        assert (http_status(refused), refused.retryable) == (502, False)
    (overreach,) = told(home, "plugin.capability_overreach")
    assert (overreach["claimed"], overreach["allowed"]) == (["net:evil.example:443"], [])
    assert len(told(home, "plugin.spawned")) == 1
    assert not told(home, "plugin.crashed")


@pytest.mark.req("G-05", "-32003")
@pytest.mark.req("G-15", "-32003")
@pytest.mark.req("G-30", "storage access violation")
async def test_a_plugin_that_reaches_for_tables_of_others_is_refused_recorded_and_left_running(home: Home) -> None:
    ask = 'send({"jsonrpc": "2.0", "id": "q", "method": "paddock.storage.query", "params": {"sql": SQL}})'
    script = on_call(ask, 'return {"code": read()["error"]["code"]}')
    program = as_program("reader", f'SQL = "SELECT * FROM plugin_other_t"\n{script}')
    home.install("reader", program=program, methods=[DO_IT], tools=[], capabilities=["storage:read"])
    async with playing(home) as scene:
        assert await scene.host.call("reader.do.it", {}) == {"code": -32003}

        shown = await scene.listed("reader")
        assert (shown["state"], shown["failures"]) == ("running", 0)
        lines = [line["line"] for line in await scene.host.plugins.logs.read_last("reader")]
        assert any("[paddock] refused: a statement about what is not its own" in line for line in lines)
        assert await scene.host.call("reader.do.it", {"say": "well"}) == {"well": True}
    (denied,) = told(home, "plugin.storage_denied")
    assert denied["sql"] == "SELECT * FROM plugin_other_t"


@pytest.mark.req("G-30", "stdout noise")
async def test_what_a_plugin_says_besides_json_is_dropped_and_told_and_it_goes_on(home: Home) -> None:
    async with playing(home, actor=on_call('print("loading ...", flush=True)', 'return {"well": True}')) as scene:
        assert await scene.host.call("actor.do.it", {}) == {"well": True}

        assert (await scene.listed())["state"] == "running"
        lines = [line["line"] for line in await scene.host.plugins.logs.read_last("actor")]
        assert any("loading ..." in line for line in lines)
    (noise,) = told(home, "plugin.stdout_noise")
    assert noise["line"] == "loading ..."


@pytest.mark.req("G-30", "all crash at once")
async def test_when_all_plugins_crash_at_once_each_comes_back_by_itself_and_the_host_goes_on(home: Home) -> None:
    names = ["one", "two", "three", "four"]
    async with playing(home, **dict.fromkeys(names, WELL)) as scene:
        pids = {name: scene.status(name).pid or 0 for name in names}
        with hurrying(HARDLY):
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
            for name in names:
                await scene.until(PluginState.CRASHED, name)
            refused = [await scene.failure(name) for name in names]
            shown = [(await scene.listed(name))["reason"] for name in names]

        assert [http_status(error) for error in refused] == [502] * 4
        assert shown == ["it was ended by SIGKILL"] * 4
        for name in names:
            await scene.until(PluginState.RUNNING, name)
            assert await scene.host.call(f"{name}.do.it", {}) == {"well": True}
            assert scene.status(name).pid != pids[name]
    crashed = told(home, "plugin.crashed")
    assert sorted(one["name"] for one in crashed) == sorted(names)


@pytest.mark.req("G-30", "install source unreachable")
@pytest.mark.parametrize(
    ("source", "code"), [("git+https://127.0.0.1:9/notes.git", 1), ("git+file:///nowhere/notes.git", 3), ("./notes", 3)]
)
def test_a_source_that_cannot_be_reached_installs_nothing_and_a_later_try_does(
    home: Home, source: str, code: int
) -> None:
    home.path.mkdir(mode=0o700)
    paddock = Paddock(home.path)
    said = paddock("plugin", "install", source, "--yes", "--json", code=code)

    assert said.error["category"] in ("dependency", "not_found")
    assert said.error["hint"]
    assert paddock.listed() == {}
    assert not list(paddock.staging.glob("*"))
    paddock("plugin", "install", native(home.path.parent / "notes"), "--yes")
    assert list(paddock.listed()) == ["notes"]


def as_program(name: str, script: str) -> str:
    """A script as `Home.install` wants it."""
    text = f"NAME, METHODS = {name!r}, ['do.it']\n{PRELUDE}\n{script}"
    return text.replace("{", "{{").replace("}", "}}")
