"""Plugins that send what they should not, or do not read: what ends them, what is only noticed, and what is told."""

from __future__ import annotations

import asyncio

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Stage
from tests.runtime.witness import UNASKED, fallen, next_life, on_call, runs_again, told

from paddock.core.errors import PluginError, TimedOut, Unavailable
from paddock.core.events.contracts import OversizeMessage
from paddock.core.events.plugin_runtime import (
    PluginCrashed,
    PluginInitialized,
    PluginNotification,
    PluginNotificationFlood,
    PluginProtocolViolation,
    PluginSpawned,
    PluginStdoutNoise,
)
from paddock.runtime.lifecycle import PluginState

pytestmark = pytest.mark.usefixtures("bystander")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


def raw(line: str) -> str:
    """A line of the script that writes bytes as they are."""
    return f"os.write(1, {line})"


# --- what ends it -----------------------------------------------------------------------------------------------------


@pytest.mark.req("G-01", "lines of JSON up to 4 MiB")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param('raw = b\'{"jsonrpc":"2.0","id":9,"result":"\' + b"x" * (5 << 20) + b\'"}\\n\'', id="5 MiB"),
        pytest.param('raw = b"x" * (5 << 20)', id="no end in sight"),
    ],
)
@pytest.mark.req("G-31", "oversize message")
@pytest.mark.req("G-29", "protocol.oversize_message")
async def test_a_line_longer_than_four_mebibytes_ends_the_plugin_and_it_is_started_again(
    stage: Stage, line: str
) -> None:
    actor = stage.actor(on_call(line, "sys.stdout.buffer.write(raw); sys.stdout.flush(); time.sleep(60)"))
    with pytest.raises(Unavailable, match="ended before it answered"):
        await actor.call("do.it")
    status, crashed = await fallen(actor)
    assert status.reason == "a line has more than 4194304 bytes"
    assert status.failures == 1
    assert crashed.signal == 9
    assert told(stage, OversizeMessage) == [OversizeMessage(name="actor", limit_bytes=4194304)]
    (violation,) = told(stage, PluginProtocolViolation)
    assert (violation.violation_type, violation.detail) == ("oversize_message", status.reason)
    await runs_again(actor)


async def test_a_line_with_more_structure_than_can_be_read_in_good_time_ends_the_plugin(stage: Stage) -> None:
    actor = stage.actor(on_call('os.write(1, b\'{"a":[\' + b"[]," * 100_000 + b"0]}\\n"); time.sleep(60)'))
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    status, _ = await fallen(actor)
    assert "brackets, commas and colons" in status.reason
    assert [violation.violation_type for violation in told(stage, PluginProtocolViolation)] == ["too_dense"]
    await runs_again(actor)


@pytest.mark.parametrize("closed", [pytest.param(1, id="its output"), pytest.param(0, id="its input")])
async def test_a_plugin_that_closes_a_pipe_and_lives_on_is_ended_and_started_again(stage: Stage, closed: int) -> None:
    actor = stage.actor(on_call(f"os.close({closed}); time.sleep(600)"), timing=UNASKED)
    await actor.settled()
    with pytest.raises(Unavailable, match="closed its"):
        await actor.call("do.it")
    status, crashed = await fallen(actor)
    assert "closed its" in status.reason
    assert (crashed.exit_code, crashed.signal) == (None, 9)
    await runs_again(actor)


async def test_a_plugin_that_closes_its_input_in_the_handshake_is_ended_and_started_again(stage: Stage) -> None:
    actor = stage.actor("first = read()\nos.close(0)\nanswer(first, introduction())\ntime.sleep(600)")
    status = await actor.until(PluginState.CRASHED)
    assert "closed its" in status.reason
    assert told(stage, PluginInitialized)


async def test_a_plugin_that_does_not_read_what_it_is_sent_is_ended_when_a_call_has_had_its_time(stage: Stage) -> None:
    actor = stage.actor("hello()\ntime.sleep(600)", timing=UNASKED | {"shutdown_sec": 1})
    await actor.settled()
    with hurrying(), pytest.raises(TimedOut, match="within 30 s"):
        await actor.call("do.it", text="x" * 900_000)
    status, crashed = await fallen(actor)
    assert status.reason == "a call was not answered within 30 s"
    assert (status.failures, crashed.signal) == (1, 9)
    assert (await next_life(actor)).state is PluginState.RUNNING


async def test_a_plugin_that_is_busy_and_does_not_read_meanwhile_is_left_alone(stage: Stage) -> None:
    actor = stage.actor(
        on_call("time.sleep(1.5)", "answer(request, {'done': True})"),
        methods=[{"name": "do.it", "effects": ["read_only"], "timeout_sec": 900}],
        timing=UNASKED,
    )
    await actor.settled()
    with hurrying():  # its second and a half of work are much longer for the host
        calls = [asyncio.create_task(actor.call("do.it", text="x" * 200_000)) for _ in range(3)]
        await asyncio.gather(*calls)
    assert actor.status.failures == 0


# --- what is only noticed ---------------------------------------------------------------------------------------------


@pytest.mark.req("G-01", "noise on stdout")
@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param('b"loading the model ...\\n"', "loading the model ...", id="words"),
        pytest.param('b"{\\xff\\xfe}\\n"', "{��}", id="broken UTF-8"),
        pytest.param(
            'b\'{"jsonrpc":"2.0","id":1,"result":NaN}\\n\'', '{"jsonrpc":"2.0","id":1,"result":NaN}', id="NaN"
        ),
        pytest.param('b"\\xef\\xbb\\xbf{}\\n"', "", id="a byte order mark"),
        pytest.param('b"42\\n"', "42", id="a number"),
        pytest.param('b"y" * 1000 + b"\\n"', "y" * 200, id="a long line"),
    ],
)
@pytest.mark.req("G-29", "plugin.stdout_noise")
async def test_a_line_that_is_no_json_is_told_and_dropped_and_the_plugin_goes_on(
    stage: Stage, written: str, shown: str
) -> None:
    actor = stage.actor(on_call(raw(written), 'return {"answered": True}'))
    assert await actor.call("do.it") == {"answered": True}
    (noise,) = told(stage, PluginStdoutNoise)
    assert noise.name == "actor"
    assert noise.line.startswith(shown[:190])
    assert len(noise.line) <= 200
    assert (actor.status.state, actor.status.failures) == (PluginState.RUNNING, 0)


async def test_a_thousand_lines_of_noise_are_told_ten_times_and_cost_nobody_anything(stage: Stage) -> None:
    actor = stage.actor(on_call('os.write(1, b"chatter\\n" * 1000)', 'return {"answered": True}'))
    assert await actor.call("do.it") == {"answered": True}
    assert 1 <= len(told(stage, PluginStdoutNoise)) <= 20
    assert actor.status.state is PluginState.RUNNING


async def test_what_ends_a_plugin_is_recorded_however_much_noise_and_nonsense_came_before(stage: Stage) -> None:
    flood = 'os.write(1, b"chatter\\n" * 500 + b\'{"id":1}\\n\' * 500)'
    actor = stage.actor(on_call(flood, 'os.write(1, b"[" * 200_000)', "time.sleep(60)"))
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    await fallen(actor)
    violations = [violation.violation_type for violation in told(stage, PluginProtocolViolation)]
    assert violations[-1] == "too_dense"
    assert "malformed" in violations
    assert len(violations) <= 21


async def test_of_a_key_that_stands_twice_the_last_counts(stage: Stage) -> None:
    doubled = 'b\'{"jsonrpc":"2.0","id":%d,"result":{"n":1},"result":{"n":2}}\\n\' % request["id"]'
    actor = stage.actor(on_call(raw(doubled)))
    assert await actor.call("do.it") == {"n": 2}
    assert not told(stage, PluginProtocolViolation)


async def test_an_answer_nested_too_deep_fails_its_call_at_once_and_the_plugin_goes_on(stage: Stage) -> None:
    deep = 'b\'{"jsonrpc":"2.0","id":%d,"result":\' % request["id"] + b"[" * 500 + b"]" * 500 + b"}\\n"'
    actor = stage.actor(on_call(raw(deep)))
    with pytest.raises(PluginError, match="malformed"):
        await actor.call("do.it")
    (violation,) = told(stage, PluginProtocolViolation)
    assert (violation.name, violation.violation_type) == ("actor", "too_deep")
    assert await actor.call("do.it", say="well") == {"well": True}


@pytest.mark.req("G-02", "counted ids")
async def test_an_answer_to_nothing_is_told_and_one_that_comes_twice_is_dropped(stage: Stage) -> None:
    actor = stage.actor(on_call('answer({"id": 99999}, 1)', 'answer(request, {"n": 1})', 'return {"n": 2}'))
    assert await actor.call("do.it") == {"n": 1}
    assert await actor.call("do.it", say="well") == {"well": True}
    (violation,) = told(stage, PluginProtocolViolation)
    assert (violation.violation_type, violation.detail) == (
        "unknown_reply",
        "an answer to 99999, which was never asked",
    )
    assert actor.status.state is PluginState.RUNNING


async def test_an_answer_that_comes_after_its_time_is_dropped_and_saves_the_plugin(stage: Stage) -> None:
    # It reads on instead of answering, and answers when it is asked to stop.
    actor = stage.actor(
        on_call("read()", 'return {"late": True}', hello='features=["cancel"]'),
        methods=[{"name": "do.it", "effects": ["read_only"], "timeout_sec": 30}],
        timing=UNASKED,
    )
    await actor.settled()
    with hurrying(), pytest.raises(TimedOut, match="within 30 s"):
        await actor.call("do.it")
    assert await actor.call("do.it", say="well") == {"well": True}
    with hurrying():
        assert await actor.call("do.it", say="well") == {"well": True}
    assert not told(stage, PluginCrashed)
    assert len(told(stage, PluginSpawned)) == 1


@pytest.mark.req("G-02", "no batches")
@pytest.mark.req("G-15", "-32600")
@pytest.mark.req("G-31", "batched request rejection")
@pytest.mark.req("G-29", "plugin.protocol_violation")
async def test_a_batch_is_refused_and_the_plugin_is_told_so(stage: Stage) -> None:
    ask = '[{"jsonrpc": "2.0", "id": 7, "method": "paddock.storage.query"}]'
    actor = stage.actor(on_call(f"send({ask})", "return read()"))
    answered = await actor.call("do.it")
    assert (answered["id"], answered["error"]["code"]) == (None, -32600)
    (violation,) = told(stage, PluginProtocolViolation)
    assert (violation.name, violation.violation_type) == ("actor", "batch")
    assert "batch" in violation.detail
    assert actor.status.state is PluginState.RUNNING


@pytest.mark.req("G-02", "counted ids")
async def test_two_requests_at_once_under_one_id_are_told_apart_by_refusing_the_second(stage: Stage) -> None:
    ask = '{"jsonrpc": "2.0", "id": 7, "method": "paddock.anything"}'
    twice = f'os.write(1, (json.dumps({ask}) + "\\n").encode() * 2)'
    actor = stage.actor(on_call(twice, 'return {"codes": sorted(read()["error"]["code"] for _ in range(2))}'))
    assert await actor.call("do.it") == {"codes": [-32601, -32600]}
    assert [violation.violation_type for violation in told(stage, PluginProtocolViolation)] == ["duplicate_id"]


@pytest.mark.req("G-08", "a flood is dropped and the plugin told")
@pytest.mark.req("G-29", "plugin.notification")
@pytest.mark.req("G-29", "plugin.notification_flood")
async def test_more_than_a_hundred_notifications_a_second_are_dropped_and_the_plugin_is_told(stage: Stage) -> None:
    line = "json.dumps({'jsonrpc': '2.0', 'method': 'catalog.updated', 'params': {}}) + '\\n'"
    actor = stage.actor(on_call(f"os.write(1, ({line}).encode() * 500)", 'return {"told": read()}'))
    answered = await actor.call("do.it")
    assert answered["told"]["method"] == "system.rate_limited"
    assert answered["told"]["params"] == {"limit_per_second": 100}
    assert "id" not in answered["told"]
    floods = told(stage, PluginNotificationFlood)
    assert floods[0] == PluginNotificationFlood(name="actor", rate=101.0)
    passed = told(stage, PluginNotification)
    assert passed[0] == PluginNotification(name="actor", notification_type="catalog.updated")
    assert 100 <= len(passed) <= 100 * (len(floods) + 1)
    assert len(stage.audience.notifications) == len(passed)
    assert actor.status.state is PluginState.RUNNING


async def test_a_plugin_that_asks_without_end_and_reads_no_answer_is_ended_as_one_that_does_not_read(
    stage: Stage,
) -> None:
    ask = 'b\'{"jsonrpc":"2.0","id":%d,"method":"paddock.anything"}\\n\' % number'
    actor = stage.actor(on_call(f"for number in range(30_000): os.write(1, {ask})", "time.sleep(600)"), timing=UNASKED)
    call = asyncio.create_task(actor.call("do.it"))
    await stage.audience.until(lambda: told(stage, PluginProtocolViolation))
    with hurrying(), pytest.raises(TimedOut, match="within 30 s"):
        await call
    status, crashed = await fallen(actor)
    assert status.reason == "a call was not answered within 30 s"
    assert crashed.signal == 9
    assert {violation.violation_type for violation in told(stage, PluginProtocolViolation)} == {"unread_answers"}
    await runs_again(actor)
