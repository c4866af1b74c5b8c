"""A server that keeps saying that its list changed is looked at less and less; one that is quiet again, at once."""

from __future__ import annotations

import pytest

from paddock.plugins.definitions.pacing import BURST, LONGEST, SHORTEST, Pace

pytestmark = pytest.mark.req("B-03")


def test_a_server_that_never_stops_is_looked_at_less_and_less() -> None:
    pace, now, pauses = Pace(), 100.0, []
    for _ in range(BURST + 12):
        pause = pace.wait(now)
        pauses.append(pause)
        now += pause

    assert pauses[: BURST + 1] == [0.0] * (BURST + 1)
    assert pauses[BURST + 1 : BURST + 7] == [SHORTEST, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert pauses[-1] == LONGEST


def test_a_server_that_changes_now_and_then_never_waits() -> None:
    pace = Pace()

    assert [pace.wait(float(now)) for now in range(0, 200, 2)] == [0.0] * 100


def test_a_server_that_is_quiet_again_is_looked_at_at_once() -> None:
    pace, now = Pace(), 0.0
    for _ in range(BURST + 12):
        now += pace.wait(now)

    assert pace.wait(now + 2 * LONGEST) == 0.0
    assert pace.wait(now + 2 * LONGEST) == 0.0
