"""What people are told when a plugin fails: the reason, to whoever waits for an answer and whoever looks later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Stage, open_stage
from tests.runtime.witness import on_call, runs_again

from paddock.cage.spec import MIB, ResourceLimits
from paddock.core.action import Action
from paddock.core.error_formats import error_to_json
from paddock.core.errors import Failed, Unavailable
from paddock.core.events.plugin_runtime import PluginMethodCalled
from paddock.runtime.inbound import MAX_RECORDED_PER_S
from paddock.runtime.lifecycle import PluginState

GOING_DOWN = 'print("going down", file=sys.stderr, flush=True); os._exit(3)'


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


async def test_what_a_plugin_prints_instead_of_a_handshake_is_in_its_log_and_in_the_reason(stage: Stage) -> None:
    actor = stage.actor('print("Hello from my plugin!", flush=True)\nwhile True: read()')
    await stage.audience.until(lambda: stage.audience.lines)
    with hurrying():
        status = await actor.until(PluginState.FAILED)
    assert stage.audience.lines == ["[stdout] Hello from my plugin!"]
    assert status.reason == (
        "it did not answer the handshake within 10 s; it wrote text to stdout that is not JSON-RPC:"
        " 'Hello from my plugin!'"
    )
    assert "standard error" in status.hint


async def test_a_flood_on_stdout_fills_no_log(stage: Stage) -> None:
    actor = stage.actor(on_call('print("noise\\n" * 1000, flush=True)', "return {}"))
    await actor.call("do.it")
    lines = stage.audience.lines
    assert lines[:MAX_RECORDED_PER_S] == ["[stdout] noise"] * MAX_RECORDED_PER_S
    assert lines[MAX_RECORDED_PER_S] == "[stdout] [more was written than is kept; lines are missing here]"
    assert len(lines) < 100


async def test_whoever_waits_for_an_answer_hears_why_the_plugin_died(stage: Stage) -> None:
    actor = stage.actor(on_call(GOING_DOWN))
    with pytest.raises(Unavailable) as failed:
        await actor.call("do.it")
    assert failed.value.message == (
        "actor ended before it answered: it ended with exit status 3; its last log line: going down"
    )
    assert failed.value.action == Action.of("plugin.logs", plugin="actor")


async def test_a_plugin_that_uses_too_much_memory_in_a_call_is_told_how_much_it_may(stage: Stage) -> None:
    stage.limits = ResourceLimits(memory_bytes=96 * MIB)
    actor = stage.actor(on_call("hoard = []", "while True: hoard.append(bytearray(1 << 20))"))
    with pytest.raises(Unavailable) as failed:
        await actor.call("do.it")
    assert failed.value.message == "actor ended before it answered: it exceeded its memory limit (96 MB)"
    assert "limits.memory_mb" in failed.value.hint


async def test_one_that_closes_its_output_and_stays_is_not_waited_for_longer_than_its_grace(stage: Stage) -> None:
    actor = stage.actor(on_call("os.close(1); time.sleep(600)"))
    await actor.settled()
    with hurrying(), pytest.raises(Unavailable, match="ended before it answered: the other side closed its output"):
        await actor.call("do.it")


async def test_one_that_is_stopped_in_the_middle_of_a_call_was_asked_to(stage: Stage) -> None:
    actor = stage.actor(on_call("sys.exit(0) if read()['method'] == 'shutdown' else None"))
    await actor.settled()
    call = asyncio.ensure_future(actor.call("do.it"))
    await stage.audience.event(PluginMethodCalled)
    await stage.supervisor.close()
    with pytest.raises(Unavailable, match="ended before it answered: it was stopped"):
        await call


async def test_after_a_restart_its_last_failure_and_their_number_can_still_be_seen(stage: Stage) -> None:
    actor = stage.actor(on_call(GOING_DOWN))
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    await runs_again(actor)
    status = actor.status
    assert (status.state, status.reason, status.restarts) == (PluginState.RUNNING, "", 1)
    assert status.last_failure is not None
    assert status.last_failure.reason == "it ended with exit status 3; its last log line: going down"
    assert status.last_failure.error_code == "plugin.crashed"
    assert status.last_failure.at < str(status.running_since)


async def test_one_that_failed_for_good_is_not_worth_another_try(stage: Stage) -> None:
    actor = stage.actor("answer(read(), introduction(name='somebody-else')); read()")
    with pytest.raises(Failed, match="actor does not run: it failed") as refused:
        await actor.call("do.it")
    assert (refused.value.error_code, error_to_json(refused.value)["retryable"]) == ("plugin.failed", False)


async def test_a_host_that_is_there_for_one_call_promises_no_restart_and_passes_the_advice_on(tmp_path: Path) -> None:
    async with open_stage(tmp_path, lasting=False) as stage:
        with pytest.raises(Unavailable) as refused:
            await stage.actor("import a_library_of_mine").call("do.it")
        assert "its Python module a_library_of_mine cannot be imported" in refused.value.message
        assert "put a_library_of_mine into the package" in refused.value.hint
        told = f"{refused.value.message} {refused.value.hint}"
        assert not any(promise in told for promise in ("restart", "again", "moment"))
