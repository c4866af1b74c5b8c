"""Plugins that do not get as far as answering: each is refused or tried again, and says why."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Stage, open_stage
from tests.runtime.witness import UNASKED, WELL, fallen, next_life, told

from paddock.cage.spec import CageSpec
from paddock.cage.warden.client import CagedProcess, WardenClient, open_warden
from paddock.core.errors import NotFound, StoreUnavailable, Unavailable
from paddock.core.events.plugin_runtime import PluginCrashed, PluginInitialized, PluginProtocolViolation, PluginSpawned
from paddock.runtime.lifecycle import PluginState

A_SETTING = {"type": "object", "properties": {"colour": {"type": "string"}}}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_ends_before_it_answers_tells_its_last_words_and_is_tried_again(stage: Stage) -> None:
    actor = stage.actor('sys.exit("no licence was found")')
    status, crashed = await fallen(actor)
    assert status.reason == (
        "it ended with exit status 1 before it answered the handshake; its last log line: no licence was found"
    )
    assert crashed == PluginCrashed(name="actor", exit_code=1, signal=None, last_stderr=("no licence was found",))
    assert status.failures == 1
    assert status.restarts_in is not None
    assert 0 < status.restarts_in <= 1.2
    await next_life(actor)
    assert len(told(stage, PluginSpawned)) == 2
    assert actor.status.failures == 2


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_ends_content_without_having_read_anything_is_told_to_read(stage: Stage) -> None:
    status, crashed = await fallen(stage.actor("sys.exit(0)"))
    assert status.reason.startswith("it ended by itself before it answered the handshake")
    assert "standard input" in status.hint
    assert crashed.exit_code == 0


@pytest.mark.usefixtures("bystander")
async def test_a_program_that_speaks_no_json_and_ends_is_told_what_its_output_is_for(stage: Stage) -> None:
    status, _ = await fallen(stage.actor('print("usage: main.py [--serve]")'))
    assert status.reason == (
        "it ended without answering; it wrote text to stdout that is not JSON-RPC: 'usage: main.py [--serve]'"
    )
    assert "standard error" in status.hint


@pytest.mark.usefixtures("bystander")
async def test_a_program_that_is_not_there_is_refused_by_its_name_and_not_tried_again(stage: Stage) -> None:
    actor = stage.actor(WELL, runtime={"command": ["./no-such-program"]})
    status = await actor.until(PluginState.FAILED)
    assert "no-such-program" in status.reason
    assert not told(stage, PluginSpawned)


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_whose_package_is_gone_is_refused_and_started_once_it_is_back(stage: Stage) -> None:
    actor = stage.actor(WELL, start=False)
    moved = actor.root.rename(actor.root.with_name("elsewhere"))
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    status = actor.status
    assert status.state is PluginState.FAILED
    assert status.reason
    assert not told(stage, PluginSpawned)
    shutil.move(moved, actor.root)
    stage.supervisor.enable(actor.key)
    assert (await actor.settled()).state is PluginState.RUNNING


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_may_not_start_fails_with_the_reason_and_costs_no_restart(stage: Stage) -> None:
    stage.refusals["actor"] = NotFound("actor was uninstalled meanwhile", code="plugin.not_found", hint="install it")
    actor = stage.actor(WELL)
    status = await actor.until(PluginState.FAILED)
    assert (status.error_code, status.reason) == ("plugin.not_found", "actor was uninstalled meanwhile")
    assert (status.hint, status.failures) == ("install it", 0)
    with pytest.raises(Unavailable, match="actor was uninstalled meanwhile") as refused:
        await actor.call("do.it")
    assert refused.value.hint == "install it"
    assert refused.value.details["reason_code"] == "plugin.not_found"
    assert not told(stage, PluginSpawned)


@pytest.mark.parametrize("trouble", [StoreUnavailable("the store is away"), OSError(28, "No space left on device")])
@pytest.mark.usefixtures("bystander")
async def test_a_start_that_fails_for_a_passing_reason_is_tried_again(stage: Stage, trouble: Exception) -> None:
    stage.refusals["actor"] = trouble
    actor = stage.actor(WELL)
    status = await actor.until(PluginState.CRASHED)
    assert str(trouble) in status.reason
    assert status.failures == 0  # it was the host's trouble
    assert not told(stage, PluginCrashed)  # there was no process
    del stage.refusals["actor"]
    assert (await next_life(actor)).state is PluginState.RUNNING


@pytest.mark.usefixtures("bystander")
async def test_a_mistake_of_ours_in_one_start_is_that_plugins_trouble_and_nobody_elses(stage: Stage) -> None:
    stage.refusals["actor"] = ZeroDivisionError("division by zero")
    status = await stage.actor(WELL).until(PluginState.FAILED)
    assert status.error_code == "internal"
    assert "division by zero" in status.reason


@pytest.mark.usefixtures("bystander")
async def test_without_a_free_descriptor_a_start_is_tried_again_later(stage: Stage) -> None:
    actor = stage.actor(WELL, start=False)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, usual[1]))
    try:
        stage.supervisor.enable(actor.key)
        status = await actor.until(PluginState.CRASHED)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    assert status.reason == "no descriptor is free"
    assert "ulimit -n" in status.hint
    assert (await next_life(actor)).state is PluginState.RUNNING


class OneWithout:
    """A machine on which one plugin's cage cannot be built."""

    def __init__(self, sound: WardenClient, broken: WardenClient) -> None:
        self._sound, self._broken = sound, broken

    async def launch(self, spec: CageSpec) -> CagedProcess:
        return await (self._broken if spec.plugin == "actor" else self._sound).launch(spec)


@pytest.fixture
def no_programs(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


@pytest.mark.req("G-18", "nothing runs without its cage")
async def test_without_bubblewrap_a_plugin_is_refused_with_the_line_to_type_and_never_runs_uncaged(
    tmp_path: Path, no_programs: Path
) -> None:
    async with (
        open_warden() as sound,
        open_warden(path=str(no_programs)) as broken,
        open_stage(tmp_path, launch_caged=OneWithout(sound, broken).launch) as stage,
    ):
        other = stage.actor(WELL, "bystander")
        status = await stage.actor(WELL).until(PluginState.FAILED)
        assert status.error_code == "cage.bwrap_missing"
        assert "bubblewrap" in status.hint
        assert status.failures == 0
        assert not told(stage, PluginSpawned)
        assert (await other.settled()).state is PluginState.RUNNING
        assert await other.call("do.it") == {"well": True}


@pytest.mark.parametrize("schema", [A_SETTING, None])
@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_refuses_its_configuration_fails_and_is_not_tried_again(stage: Stage, schema: Any) -> None:
    actor = stage.actor(
        'answer(read(), introduction())\nread()\nrefuse(read(), -32004, "no such colour")\nserve()',
        **({"config_schema": schema} if schema else {}),
    )
    status = await actor.until(PluginState.FAILED)
    assert status.error_code == "config_invalid"
    assert status.reason == "it did not accept config.update: error -32004: no such colour"
    violation = PluginProtocolViolation(name="actor", violation_type="handshake", detail=status.reason)
    assert told(stage, PluginProtocolViolation) == [violation]
    assert (len(told(stage, PluginSpawned)), status.failures) == (1, 0)


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_does_not_answer_its_configuration_in_ten_seconds_fails(stage: Stage) -> None:
    actor = stage.actor("answer(read(), introduction())\nwhile True: read()")
    await stage.audience.until(lambda: told(stage, PluginInitialized))
    with hurrying():
        status = await actor.until(PluginState.FAILED)
    assert status.error_code == "config_invalid"
    assert "no answer within 10 s" in status.reason
    assert len(told(stage, PluginSpawned)) == 1


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_without_settings_need_not_know_the_method_that_tells_them(stage: Stage) -> None:
    script = 'answer(read(), introduction())\nread()\nrefuse(read(), -32601, "what?")\nserve(do_it=lambda r: {"ok": 1})'
    with_settings = stage.actor(script, "with-settings", config_schema=A_SETTING)
    without = stage.actor(script, "without", timing=UNASKED)
    assert (await without.settled()).state is PluginState.RUNNING
    assert (await with_settings.until(PluginState.FAILED)).error_code == "config_invalid"
