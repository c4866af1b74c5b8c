"""A call that was in doubt and is made again under its key, and whose operator is still at work on it by then."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.counting import SOON
from tests.gate.effects.in_progress.test_in_progress import SUCCEEDED, Works, call, failure

from fixtures.daemons import eventually
from fixtures.packages import write_file, write_json
from paddock.gate.idempotency import record_queries
from paddock.gate.idempotency.states import EffectState, Resolution
from paddock.store.database import open_direct

# It fails at first, without a word about what it has begun. From then on it is at work until there is a file `go`.
PROGRAM = """
import json
from pathlib import Path

OUTSIDE = Path({outside!r})

def run(call):
    so_far = call.get("in_progress")
    with open(OUTSIDE / "asked", "a") as asked:
        asked.write(json.dumps(so_far) + "\\n")
    if not (OUTSIDE / "fell").exists():
        (OUTSIDE / "fell").touch()
        return {{"status": "failed", "error": {{"code": "SMTP", "message": "the line broke"}}}}
    if not (OUTSIDE / "go").exists():
        step = 0 if so_far is None else so_far["result"]["step"] + 1
        return {{"status": "in_progress", "result": {{"step": step}}, "retry_after_s": 0.2}}
    return {{"status": "succeeded", "result": {{"key": call["idempotency_key"]}}}}
"""


@pytest.fixture
def works(tmp_path: Path) -> Works:
    def change(package: Path) -> None:
        about = json.loads((package / "manifest.json").read_text())
        write_json(package / "manifest.json", about | {"recovery": "native_key"})
        write_file(package / "thing.py", PROGRAM.format(outside=str(tmp_path / "outside")))

    return Works(tmp_path, change=change)


def asked(works: Works) -> list[Any]:
    return [json.loads(line) for line in (works.outside / "asked").read_text().splitlines()]


async def test_it_is_followed_to_its_end_and_not_asked_from_the_beginning_each_time(
    works: Works, caplog: pytest.LogCaptureFixture
) -> None:
    async with works.open(**SOON) as host:
        assert (await failure(call(host))).details["effect"] == "in_doubt"
        await asyncio.to_thread(eventually, lambda: len(asked(works)) >= 5, "it is asked again and again")
        meanwhile = works.effect()
        works.finish()
        await asyncio.to_thread(eventually, lambda: works.effect().state is EffectState.SUCCEEDED, "it is found out")
        assert await call(host) == SUCCEEDED

    assert meanwhile.state is EffectState.IN_DOUBT
    assert works.effect().resolution is Resolution.NATIVE_KEY
    first, again, *later = asked(works)
    assert (first, again) == (None, None)
    steps = range(len(later))
    assert later == [{"asked": step + 1, "result": {"step": step}} for step in steps]
    types = [one["type"] for one in works.told()]
    assert types[:5] == ["call.started", "call.ended", "effect.in_doubt", "effect.in_progress", "effect.resolved"]
    assert "still at work" not in caplog.text


def is_searched(works: Works) -> bool:
    """Whether somebody is to find out what became of it."""
    with open_direct(works.home.path / "data" / "paddock.db") as database:
        return database.read(lambda tx: record_queries.recovery_schedule(tx, works.effect())) is not None


async def test_it_is_left_to_a_person_once_it_has_had_the_time_of_other_work(works: Works) -> None:
    async with works.open(**SOON, PADDOCK_LIMITS_IN_PROGRESS_S="1") as host:
        await failure(call(host))
        await asyncio.to_thread(eventually, lambda: not is_searched(works), "its time is up")
    times = len(asked(works))
    async with works.open(**SOON):
        await asyncio.to_thread(eventually, lambda: not is_searched(works), "its time is still up")
    assert len(asked(works)) == times
    assert works.effect().state is EffectState.IN_DOUBT


@pytest.mark.slow
async def test_whoever_waited_too_long_for_work_is_told_to_look_since_nobody_makes_it_again(works: Works) -> None:
    (works.outside / "fell").touch()
    async with works.open(**SOON, PADDOCK_LIMITS_IN_PROGRESS_S="1") as host:
        late = await failure(call(host))
        await asyncio.to_thread(eventually, lambda: not is_searched(works), "nobody looks")
        times = len(asked(works))
        again = await failure(call(host))
    assert (late.error_code, again.error_code) == ("call.in_progress_too_long", "effect.in_doubt")
    for told in (late, again):
        assert "check whether it happened, and record the outcome" in told.hint
    assert [one["asked"] for one in asked(works)[1:]] == list(range(1, times)), "none after its time was up"
