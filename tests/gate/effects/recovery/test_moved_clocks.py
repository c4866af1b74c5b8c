"""The calendar is moved by a day while effects are made or found out: each happens once, and its answer is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gate.effects.counting import SOON, WAYS, Wishes, install_counter, make, things

from fixtures.breaking import Plan
from fixtures.commands import PATIENCE, Paddock
from fixtures.counter_service import counter_service
from fixtures.daemons import daemon


@pytest.mark.slow
@pytest.mark.parametrize("days", [1, -1])
def test_a_calendar_that_is_moved_between_start_and_end_loses_and_repeats_nothing(tmp_path: Path, days: int) -> None:
    paddock = Paddock(tmp_path / "home", more=SOON)
    with counter_service() as service:
        install_counter(paddock, tmp_path, service)
        wishes = Wishes(paddock.home, service)
        moved, doubtful = things("moved", WAYS), things("doubtful", WAYS)
        wishes.wanted |= moved
        with daemon(Plan("plugin answered", tuple(moved), "move the clock", days).on(paddock)):
            wishes.insist()
            for thing, way in moved.items():
                again = make(wishes.socket, way, thing)
                assert again is not None and again.headers["idempotency-replayed"] == "true"

        with daemon(Plan("plugin answered", tuple(doubtful), begins=days).on(paddock)) as running:
            asking = wishes.make_once(doubtful)
            assert running.process.wait(PATIENCE) == -9
            for thread in asking:
                thread.join(PATIENCE)
        # Begun on one day, and found out on the day before or after.
        with daemon(Plan(begins=0).on(paddock)):
            wishes.insist()
            wishes.check(paddock)
