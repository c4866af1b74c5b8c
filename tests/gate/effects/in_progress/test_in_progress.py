"""Operators that are still at work are asked again until they are through: on whole hosts, in cages, across kills."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.gate.test_governed_calls import ANN, made_by
from tests.host.conftest import Home
from tests.runtimes.test_python_code import kernel

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.packages import write_json
from paddock import Config, open_host
from paddock.core.errors import Conflict, PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.effects.poll_state import MAX_POLL_DELAY_S, MIN_POLL_DELAY_S, poll_delay
from paddock.gate.idempotency import record_queries, records
from paddock.gate.idempotency.records import EffectKey, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.ledger.read.entries import list_entries
from paddock.plugins.manage.enable import enable
from paddock.store.database import open_direct

NAME = "Our.Thing"

# The work is a line in a file outside for each call that began with it; it is through once there is a file `go`.
PROGRAM = """
import os, time
from pathlib import Path

OUTSIDE = Path({outside!r})

def run(call):
    payload, so_far = call["payload"], call.get("in_progress")
    if so_far is None:
        with open(OUTSIDE / "begun", "a") as begun:
            begun.write(call["idempotency_key"] + "\\n")
        return going({{"asked": 0}})
    (OUTSIDE / "asked").touch()
    if payload.get("ask") == "hangs" and not (OUTSIDE / "hung").exists():
        (OUTSIDE / "hung").touch()
        time.sleep(600)
    if payload.get("ask") == "waits" and not (OUTSIDE / "hung").exists():
        (OUTSIDE / "hung").touch()
        while not (OUTSIDE / "released").exists():
            time.sleep(0.02)
    if payload.get("ask") == "crashes" and not (OUTSIDE / "hung").exists():
        (OUTSIDE / "hung").touch()
        os._exit(1)
    if payload.get("ask") == "raises" and so_far["asked"] == 1:
        raise OSError("the service is away")
    if not (OUTSIDE / "go").exists():
        return going({{"asked": so_far["result"]["asked"] + 1}})
    return payload.get("ends") or {{"status": "succeeded", "result": {{"key": call["idempotency_key"]}}}}

def going(result):
    return {{"status": "in_progress", "result": result, "retry_after_s": 0.2}}
"""


def operator(folder: Path, outside: Path, *effects: str) -> Path:
    """The package of an operator that works on something outside."""
    outside.mkdir()
    package = kernel(folder, "operator", PROGRAM.format(outside=str(outside)), (f"write:fs:{outside}",))
    about = json.loads((package / "manifest.json").read_text())
    promised = {"output": {"type": "object", "properties": {"key": {"type": "string"}}}}
    write_json(package / "manifest.json", about | {"effects": list(effects or ("db_write",)), "schemas": promised})
    return package


class Works:
    """A home with such an operator.

    Args:
        folder: Where the package and what is outside are.
        effects: What the operator declares.
        home: Where the home is; beside them, unless this says otherwise.
        change: Makes something else of the package.
    """

    def __init__(
        self,
        folder: Path,
        *effects: str,
        home: Path | None = None,
        change: Callable[[Path], object] = lambda _package: None,
    ) -> None:
        self.home = Home(home or folder)
        self.outside = folder / "outside"
        package = operator(folder / "works", self.outside, *effects)
        change(package)
        self.home.take(package)
        self.home.changing(lambda plugins: enable(plugins, NAME))

    @property
    def begun(self) -> list[str]:
        return (self.outside / "begun").read_text().split()

    @property
    def parked(self) -> bool:
        """Whether a call of it is in progress."""
        with open_direct(self.home.path / "data" / "paddock.db") as database:
            return bool(database.read(lambda tx: record_queries.list_parked(tx, 1)))

    def finish(self) -> None:
        (self.outside / "go").touch()

    async def until(self, name: str) -> None:
        await asyncio.to_thread(eventually, (self.outside / name).exists, f"there is {name}")

    @asynccontextmanager
    async def open(self, role: Literal["daemon", "command"] = "daemon", **environ: str) -> AsyncGenerator[Host, None]:
        async with open_host(Config(home=self.home.path, environ=environ, role=role, start="nothing")) as host:
            yield host

    def effect(self, key: str = "k1") -> IdempotencyRecord:
        of = EffectKey(DEFAULT_TENANT, NAME, NAME, key)
        with open_direct(self.home.path / "data" / "paddock.db") as database:
            found = database.read(lambda tx: records.find(tx, of))
        assert found is not None
        return found

    def told(self) -> list[dict[str, Any]]:
        """What the ledger says of calls and effects, oldest first."""
        with open_direct(self.home.path / "data" / "paddock.db") as database:
            entries = database.read(lambda tx: list_entries(tx, newest_first=False, limit=1000))
        seen = [entry for entry in entries if entry.type.startswith(("call.", "effect."))]
        return [{"type": entry.type, "call": entry.call, **entry.data} for entry in seen]


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


def call(host: Host, params: dict[str, Any] | None = None, key: str = "k1") -> asyncio.Future[Any]:
    made = host.call(NAME, params or {}, context=made_by(ANN), idempotency_key=key)
    return asyncio.ensure_future(asyncio.wait_for(made, PATIENCE))


async def failure(made: asyncio.Future[Any]) -> PaddockError:
    with pytest.raises(PaddockError) as failed:
        await made
    return failed.value


SUCCEEDED = {"status": "succeeded", "result": {"key": "k1"}}


@pytest.mark.req("K-26", "followed to its end")
@pytest.mark.parametrize("role", ["daemon", "command"])
async def test_whoever_waits_gets_the_end_and_whoever_has_the_same_key_gets_the_same_one(
    works: Works, role: Literal["daemon", "command"]
) -> None:
    async with works.open(role) as host:
        first = call(host)
        await works.until("asked")
        joined = call(host)
        meanwhile = works.effect()
        works.finish()
        answers = [await first, await joined, await call(host)]

    assert answers == [SUCCEEDED] * 3
    assert (meanwhile.state, meanwhile.parked, meanwhile.result) == (EffectState.STARTED, True, None)
    assert works.begun == ["k1"]
    assert works.effect().state is EffectState.SUCCEEDED
    began, parked, ended, *replays = works.told()
    assert [one["type"] for one in (began, parked, ended)] == ["call.started", "effect.in_progress", "call.ended"]
    assert (ended["status"], ended["call"], ended["replay_of"]) == ("succeeded", began["call"], None)
    assert [one["replay_of"] for one in replays] == [began["call"]] * 2


async def test_a_call_in_progress_takes_no_place_and_goes_on_when_its_caller_hangs_up(works: Works) -> None:
    async with works.open() as host:
        live = host.calls.registry.start(NAME, "", {}, made_by(ANN, idempotency_key="k1"))
        await works.until("asked")
        seen, running = live.to_json()["status"], host.calls.registry.running_count
        live.on_disconnect()
        works.finish()
        result = await asyncio.wait_for(live.wait(), PATIENCE)
    assert (seen, running, live.status, result) == ("in_progress", 0, "succeeded", SUCCEEDED)


@pytest.mark.parametrize("ask", ["crashes", "raises"])
async def test_one_look_that_fails_is_not_the_end_of_the_work(works: Works, ask: str) -> None:
    works.finish()
    async with works.open() as host:
        assert await call(host, {"ask": ask}) == SUCCEEDED
    assert works.begun == ["k1"]


ENDS = {
    "failed": ({"status": "failed", "error": {"code": "SMTP", "message": "x"}}, EffectState.IN_DOUBT),
    "its word": (
        {"status": "failed", "error": {"code": "SMTP", "message": "x", "no_effect": True}},
        EffectState.FAILED_NO_EFFECT,
    ),
    # It began long ago: that it does not want to be asked says nothing about that.
    "refused": ({"status": "failed", "error": {"code": "VALIDATION_ERROR", "message": "x"}}, EffectState.IN_DOUBT),
    "no answer": ({"status": "succeeded", "artifacts": "none"}, EffectState.IN_DOUBT),
    "not promised": ({"status": "succeeded", "result": {"key": 1}}, EffectState.IN_DOUBT),
    "not there": (
        {"status": "succeeded", "artifacts": [{"type": "letter", "path": f"artifact://sha256/{'0' * 64}"}]},
        EffectState.IN_DOUBT,
    ),
}


@pytest.mark.req("K-26", "followed to its end")
async def test_work_that_ends_badly_is_in_doubt_unless_its_operator_says_that_nothing_happened(works: Works) -> None:
    works.finish()
    async with works.open() as host:
        for key, (ends, _) in ENDS.items():
            await failure(call(host, {"ends": ends}, key))
        again = [await failure(call(host, {"ends": ends}, key)) for key, (ends, _) in ENDS.items()]

    assert {key: works.effect(key).state for key in ENDS} == {key: state for key, (_, state) in ENDS.items()}
    codes = {key: error.error_code for key, error in zip(ENDS, again, strict=True)}
    assert codes == dict.fromkeys(ENDS, "effect.in_doubt") | {"its word": "plugin_error"}
    assert sorted(works.begun) == sorted(" ".join([*ENDS, "its word"]).split()), "one was made again"


@pytest.mark.req("K-26", "not for ever")
async def test_work_that_takes_too_long_is_in_doubt_and_not_asked_about_any_more(works: Works) -> None:
    async with works.open(PADDOCK_LIMITS_IN_PROGRESS_S="1") as host:
        late = await failure(call(host))
        works.finish()
        again = await failure(call(host))
    assert (late.error_code, late.details["effect"]) == ("call.in_progress_too_long", "in_doubt")
    assert again.error_code == "effect.in_doubt"
    assert works.effect().state is EffectState.IN_DOUBT
    assert works.begun == ["k1"]


async def test_a_call_that_somebody_cancels_is_in_doubt_since_its_operator_may_finish_all_the_same(
    works: Works,
) -> None:
    async with works.open() as host:
        live = host.calls.registry.start(NAME, "", {}, made_by(ANN, idempotency_key="k1"))
        await works.until("asked")
        await host.approvals.cancel(live)
        await asyncio.wait_for(live.wait_ended(), PATIENCE)
        assert (await failure(call(host))).error_code == "effect.in_doubt"
    assert works.effect().state is EffectState.IN_DOUBT


@pytest.mark.req("K-26", "across a restart")
async def test_a_host_that_goes_down_leaves_the_work_to_the_next_one(works: Works) -> None:
    async with works.open("command") as host:
        made = call(host)
        await works.until("asked")
        made.cancel()
        await asyncio.gather(made, return_exceptions=True)
    assert works.effect().parked
    works.finish()
    async with works.open() as host:
        assert await call(host) == SUCCEEDED
    assert works.begun == ["k1"]


async def test_what_only_reads_is_asked_again_for_as_long_as_somebody_waits(tmp_path: Path) -> None:
    works = Works(tmp_path, "read_only")
    async with works.open() as host:
        made = call(host)
        await works.until("asked")
        works.finish()
        assert await made == SUCCEEDED
        (works.outside / "go").unlink()
        (works.outside / "asked").unlink()
        live = host.calls.registry.start(NAME, "", {}, made_by(ANN))
        await works.until("asked")
        live.on_disconnect()
        await asyncio.wait_for(live.wait_ended(), PATIENCE)
    assert live.status == "cancelled"
    assert [one["status"] for one in works.told()] == ["succeeded", "cancelled"]


def ask(running: Daemon, body: dict[str, Any], how: str = "") -> Any:
    return running.ask("POST", f"/calls{how}", {"name": NAME, "params": body}, Idempotency_Key="k1").body


@pytest.mark.req("K-26", "across a restart")
@pytest.mark.parametrize("moment", ["asked", "hung"])
def test_work_goes_on_when_the_daemon_is_killed_and_is_found_under_its_call_and_its_key(
    works: Works, moment: str
) -> None:
    paddock, params = Paddock(works.home.path), {"ask": "hangs" if moment == "hung" else ""}
    with daemon(paddock) as running:
        made = ask(running, params, "?detach=true")["call_id"]
        eventually((works.outside / moment).exists, "the operator is asked again")
        running.stop(signal.SIGKILL)

    with daemon(paddock) as running:
        seen = running.ask("GET", f"/calls/{made}").body["status"]
        works.finish()
        answer = ask(running, params)
        eventually(lambda: running.ask("GET", f"/calls/{made}").body["status"] == "succeeded", "the call has ended")
        shown = paddock("call", "show", made, "--json").json

    assert seen == "in_progress"
    assert (answer["result"], answer["replay_of"]) == (SUCCEEDED, made)
    assert (shown["status"], shown["result"]) == ("succeeded", SUCCEEDED)
    assert works.begun == ["k1"]
    ended = [one["status"] for one in works.told() if one["type"] == "call.ended" and one["call"] == made]
    assert ended == ["succeeded"]
    assert [one for one in works.told() if one["type"] == "effect.in_doubt"] == []


async def test_the_key_of_work_in_progress_stands_for_its_parameters(works: Works) -> None:
    async with works.open() as host:
        made = call(host)
        await works.until("asked")
        with pytest.raises(Conflict) as clash:
            await call(host, {"ask": "raises"})
        works.finish()
        assert await made == SUCCEEDED
    assert clash.value.error_code == "effect.other_payload"


@pytest.mark.req("K-26", "not for ever")
def test_an_operator_says_when_it_is_asked_again_within_bounds() -> None:
    assert [poll_delay(asked, None) for asked in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]
    assert [poll_delay(1, said) for said in (0, 7.5, 1e9)] == [MIN_POLL_DELAY_S, 7.5, MAX_POLL_DELAY_S]
