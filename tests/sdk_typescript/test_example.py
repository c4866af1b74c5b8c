"""typescript-dice: on pipes, in a real cage, and installed in a host."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.host.conftest import Home, _take
from tests.runtime.stage import Actor, Stage, open_stage, patiently
from tests.sdk.conversation import Conversation, conversation
from tests.sdk_typescript.node import EXAMPLE, needs_node

from paddock import Config, open_host
from paddock.core.errors import CallerError
from paddock.core.events.plugin_runtime import PluginExited, PluginStdoutNoise
from paddock.plugins.manage.enable import enable
from paddock.runtime.lifecycle import PluginState

pytestmark = needs_node
MANIFEST = yaml.safe_load((EXAMPLE / "paddock.yaml").read_text())


@pytest.fixture
def dice() -> Generator[Conversation, None, None]:
    with conversation(MANIFEST["runtime"]["command"], EXAMPLE) as talk:
        talk.greet("typescript-dice", {"most_dice": 10})
        yield talk


def test_the_plugin_checks_what_its_manifest_promises() -> None:
    program = 'import("./schemas.js").then((all) => console.log(JSON.stringify(all)))'
    said = subprocess.run(["node", "-e", program], cwd=EXAMPLE, capture_output=True, check=True, timeout=60).stdout
    checked = {name.lower(): (schemas["input"], schemas["output"]) for name, schemas in json.loads(said).items()}
    assert checked == {tool["name"]: (tool["input_schema"], tool["output_schema"]) for tool in MANIFEST["tools"]}


def test_dice_are_rolled_within_their_sides(dice: Conversation) -> None:
    for _ in range(20):
        thrown = dice.call("typescript-dice.roll", {"dice": "3d6+1"})
        assert len(thrown["rolls"]) == 3 and all(1 <= one <= 6 for one in thrown["rolls"])
        assert thrown["total"] == sum(thrown["rolls"]) + 1
    assert len(dice.call("typescript-dice.roll", {"dice": "d20"})["rolls"]) == 1


@pytest.mark.parametrize(
    ("thrown", "at_least", "probability"),
    [
        ("d6", 4, 1 / 2),
        ("2d6", 7, 21 / 36),
        ("3d6", 18, 1 / 216),
        ("3d6", 3, 1),
        ("d6-3", 4, 0),
        ("2d4+10", 18, 1 / 16),
    ],
)
def test_odds_are_exact(dice: Conversation, thrown: str, at_least: int, probability: float) -> None:
    answer = dice.call("typescript-dice.odds", {"dice": thrown, "at_least": at_least})
    assert answer["probability"] == pytest.approx(probability)


def test_wrong_parameters_are_refused_with_every_mistake_at_once(dice: Conversation) -> None:
    refused = dice.error("typescript-dice.try_out", {"dice": "six", "times": 0, "loud": True})
    assert refused["code"] == -32602
    assert {problem["path"] for problem in refused["data"]["errors"]} == {"dice", "times", "loud"}
    for odd in ("0d6", "2d1", "11d6"):
        assert dice.error("typescript-dice.roll", {"dice": odd})["code"] == -32602


@pytest.fixture
async def stage(tmp_path: Path) -> Any:
    async with open_stage(tmp_path) as stage:
        yield stage


async def running(stage: Stage) -> Actor:
    """The example in a cage."""
    folder = shutil.copytree(EXAMPLE, stage.folder / "dice")
    actor = stage.deploy(folder)
    assert (await actor.settled()).state is PluginState.RUNNING
    return actor


async def test_a_caged_plugin_in_typescript_is_greeted_called_and_ended_cleanly(stage: Stage) -> None:
    actor = await running(stage)
    assert actor.status.features == ("call_tokens", "cancel", "events")
    assert len((await actor.call("roll", dice="5d8"))["rolls"]) == 5
    with pytest.raises(CallerError, match="at least one die"):
        await actor.call("roll", dice="0d8")

    await patiently(stage.supervisor.stop(actor.key))
    assert stage.audience.of(PluginExited)[0].exit_code == 0
    assert stage.audience.of(PluginStdoutNoise) == []


async def test_in_a_cage_calls_run_side_by_side_and_a_cancelled_one_stops_alone(stage: Stage) -> None:
    actor = await running(stage)
    pid = actor.status.pid
    endless = asyncio.ensure_future(actor.call("try_out", dice="d6", times=100_000_000))
    odds = await actor.call("odds", dice="2d6", at_least=7)  # answered while the other computes
    assert odds["probability"] == pytest.approx(21 / 36) and not endless.done()

    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    assert (await actor.call("try_out", dice="d6", times=10))["counts"]
    assert actor.status.pid == pid


async def test_installed_in_a_host_it_answers_by_name_with_progress_and_settings(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.changing(lambda plugins: _take(plugins, EXAMPLE))
    home.changing(lambda plugins: enable(plugins, "typescript-dice"))
    async with open_host(Config(home=home.path, environ={})) as host:
        tried = await patiently(host.call("typescript-dice.try_out", {"dice": "2d6", "times": 1000}))
        assert sum(tried["counts"].values()) == 1000 and 5 < tried["mean"] < 9
        with pytest.raises(CallerError, match="at most 100 dice"):
            await host.call("typescript-dice.roll", {"dice": "101d6"})
