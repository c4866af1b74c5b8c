"""When a plugin that fell is started again and when it is given up: the account, and real plugins that keep falling."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.paced_loop import hurrying, paced
from tests.fixtures.packages import write_file, write_json
from tests.runtime.stage import PRELUDE, Actor, LoopClock, Stage, open_stage
from tests.runtime.witness import UNASKED, WELL, fallen, next_life, told

from paddock.core.action import Action
from paddock.core.errors import Unavailable
from paddock.core.events.plugin_runtime import PluginCrashed, PluginFailed, PluginSpawned
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.restart import (
    FAILURE_WINDOW_S,
    MAX_BACKOFF_S,
    BudgetExhausted,
    RestartAfter,
    RestartBudget,
    RestartDecision,
    with_jitter,
)

AT_ONCE = "sys.exit(1)"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


# --- the account ------------------------------------------------------------------------------------------------------


def falls(*moments: float, limit: int = 5, ran: float = 0.0) -> list[RestartDecision]:
    """The verdicts on falls at these moments, each after having run for so long."""
    account, verdicts = RestartBudget(limit), []
    for moment in moments:
        account, verdict = account.record_failure(moment, ran_since=moment - ran)
        verdicts.append(verdict)
    return verdicts


@pytest.mark.req("G-22", "restarts back off")
def test_the_pauses_double_and_the_fifth_fall_within_ten_minutes_is_the_last() -> None:
    assert falls(0, 2, 5, 10, 20) == [
        RestartAfter(1),
        RestartAfter(2),
        RestartAfter(4),
        RestartAfter(8),
        BudgetExhausted(5),
    ]


def test_who_falls_rarely_is_never_given_up_and_waits_a_minute_at_most() -> None:
    verdicts = falls(*range(0, 20 * 200, 200))
    assert verdicts[:8] == [
        RestartAfter(1),
        RestartAfter(2),
        RestartAfter(4),
        RestartAfter(8),
        RestartAfter(16),
        RestartAfter(32),
        RestartAfter(60),
        RestartAfter(60),
    ]
    assert set(verdicts[6:]) == {RestartAfter(MAX_BACKOFF_S)}


@pytest.mark.req("G-22", "restarts back off")
def test_ten_minutes_in_good_health_wipe_the_slate() -> None:
    assert falls(0, 2, 5, 10, 1000, ran=600)[-1] == RestartAfter(1)
    assert falls(0, 2, 5, 10, 1000, ran=599)[-1] == RestartAfter(16)


def test_the_dialect_that_allows_three_falls_gets_three() -> None:
    assert falls(0, 2, 5, limit=3) == [RestartAfter(1), RestartAfter(2), BudgetExhausted(3)]


MOMENTS = st.lists(st.floats(0, 5_000), min_size=1, max_size=40).map(sorted)


@given(MOMENTS, st.integers(1, 8))
def test_one_is_given_up_exactly_when_so_many_falls_lie_within_ten_minutes(moments: list[float], limit: int) -> None:
    for index, verdict in enumerate(falls(*moments, limit=limit)):
        recent = [moment for moment in moments[: index + 1] if moments[index] - moment < FAILURE_WINDOW_S]
        assert isinstance(verdict, BudgetExhausted) == (len(recent) >= limit)


@given(MOMENTS)
def test_no_pause_is_shorter_than_the_one_before_it_nor_longer_than_a_minute(moments: list[float]) -> None:
    pauses = [verdict.delay_s for verdict in falls(*moments) if isinstance(verdict, RestartAfter)]
    assert pauses == sorted(pauses)
    assert all(1 <= pause <= MAX_BACKOFF_S for pause in pauses)


@given(MOMENTS, st.floats(-1e6, 1e6))
def test_only_differences_of_time_count(moments: list[float], shift: float) -> None:
    shifted = [round(moment) + round(shift) for moment in moments]
    assert falls(*shifted) == falls(*(round(moment) for moment in moments))


@given(st.floats(0, MAX_BACKOFF_S), st.integers(0, 255))
def test_chance_makes_a_pause_longer_by_a_fifth_at_most(pause: float, chance: int) -> None:
    assert pause <= with_jitter(pause, chance) <= pause * 1.2 + 1e-9


# --- real plugins -----------------------------------------------------------------------------------------------------


async def falling(actor: Actor, times: int) -> None:
    """Let it fall so many times, its pauses passing quickly."""
    for _ in range(times - 1):
        await fallen(actor)
        with hurrying():
            await actor.until(PluginState.SPAWNING)


@pytest.mark.req("G-22", "five failures in ten minutes end them")
@pytest.mark.req("G-31", "consecutive failures")
@pytest.mark.req("G-29", "plugin.failed")
@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_is_killed_five_times_is_given_up_until_a_person_enables_it(stage: Stage) -> None:
    actor = stage.actor(WELL)
    for life in range(1, 6):
        pid = (await actor.settled()).pid
        assert pid is not None
        assert len(told(stage, PluginSpawned)) == life
        os.kill(pid, signal.SIGKILL)
        if life < 5:
            status, _ = await fallen(actor)
            assert status.failures == life
            assert status.restarts_in is not None
            assert 2 ** (life - 1) * 0.5 < status.restarts_in <= 2 ** (life - 1) * 1.2
            with hurrying():
                await actor.until(PluginState.SPAWNING)
    status = await actor.until(PluginState.FAILED)
    assert (status.failures, status.restarts_in) == (5, None)
    assert status.reason == "it was ended by SIGKILL"
    assert told(stage, PluginFailed) == [PluginFailed(name="actor", total_failures=5)]
    assert len(told(stage, PluginCrashed)) == 5
    assert stage.audience.lost == [actor.key]
    with pytest.raises(Unavailable, match="it failed: it was ended by SIGKILL") as refused:
        await actor.call("do.it")
    assert refused.value.action == Action.of("plugin.enable", plugin="actor")
    stage.supervisor.enable(actor.key)
    assert (await actor.settled()).state is PluginState.RUNNING
    assert actor.status.failures == 0


@pytest.mark.usefixtures("bystander")
async def test_enabling_a_plugin_in_its_pause_ends_the_pause_and_forgives(stage: Stage) -> None:
    actor = stage.actor(AT_ONCE)
    await falling(actor, 2)
    status, _ = await fallen(actor)
    assert status.failures == 2
    write_file(actor.root / "main.py", f"NAME, METHODS = 'actor', ['do.it']\n{PRELUDE}\n{WELL}")
    stage.supervisor.enable(actor.key)
    status = await actor.settled()
    assert (status.state, status.failures, status.reason) == (PluginState.RUNNING, 0, "")


async def test_a_plugin_that_ran_well_for_ten_minutes_begins_anew(stage: Stage) -> None:
    actor = stage.actor(WELL, timing=UNASKED)
    for minutes in (0, 0, 11):
        pid = (await actor.settled()).pid
        assert pid is not None
        await passing(60.0 * minutes)
        os.kill(pid, signal.SIGKILL)
        status, _ = await fallen(actor)
        with hurrying():
            await actor.until(PluginState.SPAWNING)
        await actor.settled()
    assert status.failures == 1
    assert len(told(stage, PluginCrashed)) == 3


async def passing(seconds: float) -> None:
    """Let so much of the host's time pass, in which nothing is to happen."""
    passed = asyncio.get_running_loop().create_future()
    with hurrying(400):
        asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
        await passed


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_of_the_dialect_that_allows_three_is_given_up_after_three(stage: Stage) -> None:
    root = stage.folder / "plugin-tutor"
    osqr = {
        "plugin": {"name": "Tutor", "version": "1.0.0", "creator": "Tests", "trust_tier": "personal"},
        "constitutional_compliance": {
            "user_sovereignty": "preserved",
            "safety_guardrails": "preserved",
            "identity_core": "preserved",
        },
    }
    write_json(root / "plugin.yaml", osqr)
    write_json(root / "paddock.yaml", {"runtime": {"command": ["python3", "./main.py"]}})
    write_file(root / "main.py", "raise SystemExit(1)")
    tutor = stage.deploy(root)
    await falling(tutor, 3)
    assert (await tutor.until(PluginState.FAILED)).failures == 3
    assert told(stage, PluginFailed, "tutor") == [PluginFailed(name="tutor", total_failures=3)]


class SetClock(LoopClock):
    """A clock whose wall time somebody sets."""

    offset = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset


@pytest.mark.parametrize("days", [-3650, 3650])
async def test_a_wall_clock_that_is_set_neither_forgives_nor_condemns(usual_folder: Path, days: int) -> None:
    clock = SetClock()
    async with open_stage(usual_folder, clock=clock) as stage:
        actor = stage.actor(AT_ONCE, timing=UNASKED)
        await fallen(actor)
        clock.offset = timedelta(days=days)
        status = await next_life(actor)
        status, _ = await fallen(actor)
        assert status.failures == 2
        assert status.restarts_in is not None
        assert 1 < status.restarts_in <= 2.4


@pytest.fixture
def usual_folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


async def test_a_plugin_that_falls_again_and_again_leaves_no_descriptor_and_no_task_behind(stage: Stage) -> None:
    await stage.actor(WELL, "first").settled()  # whatever is opened once is open now
    actor = stage.actor(AT_ONCE, start=False)
    descriptors, tasks = held()
    stage.supervisor.enable(actor.key)
    await falling(actor, 4)
    await fallen(actor)
    await stage.supervisor.stop(actor.key)
    assert held() == (descriptors, tasks)


def held() -> tuple[int, int]:
    """How many descriptors this process has open, and how many tasks its loop runs."""
    return len(list(Path("/proc/self/fd").iterdir())), len(asyncio.all_tasks())
