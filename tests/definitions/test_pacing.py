"""A server that keeps saying that its list changed is looked at less and less; one that is quiet again, at once."""

from __future__ import annotations

from paddock.plugins.tool_pinning.record import (
    MAX_RELIST_INTERVAL_S,
    MIN_RELIST_INTERVAL_S,
    RELIST_BURST,
    RelistBackoff,
)


def test_a_server_that_never_stops_is_looked_at_less_and_less() -> None:
    pace, now, pauses = RelistBackoff(), 100.0, []
    for _ in range(RELIST_BURST + 12):
        pause = pace.next_delay(now)
        pauses.append(pause)
        now += pause

    assert pauses[: RELIST_BURST + 1] == [0.0] * (RELIST_BURST + 1)
    assert pauses[RELIST_BURST + 1 : RELIST_BURST + 7] == [MIN_RELIST_INTERVAL_S, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert pauses[-1] == MAX_RELIST_INTERVAL_S


def test_a_server_that_changes_now_and_then_never_waits() -> None:
    pace = RelistBackoff()

    assert [pace.next_delay(float(now)) for now in range(0, 200, 2)] == [0.0] * 100


def test_a_server_that_is_quiet_again_is_looked_at_at_once() -> None:
    pace, now = RelistBackoff(), 0.0
    for _ in range(RELIST_BURST + 12):
        now += pace.next_delay(now)

    assert pace.next_delay(now + 2 * MAX_RELIST_INTERVAL_S) == 0.0
    assert pace.next_delay(now + 2 * MAX_RELIST_INTERVAL_S) == 0.0
