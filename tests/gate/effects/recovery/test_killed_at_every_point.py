"""A daemon is killed at every point on the way of an effect, and the next one while it finds out what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.gate.effects.counting import SOON, WAYS, Wishes, doubts, install_counter, on_record, things

from fixtures.breaking import Plan
from fixtures.commands import PATIENCE, Paddock
from fixtures.counter_service import counter_service
from fixtures.daemons import daemon, doomed

MAKING = (
    "started unwritten",
    "started written",
    "plugin unasked",
    "outside unasked",
    "outside answered",
    "plugin answered",
    "ended unwritten",
    "ended written",
)
FINDING_OUT = (
    "in_doubt unwritten",
    "in_doubt written",
    "plugin unasked",
    "outside unasked",
    "outside answered",
    "plugin answered",
    "ended unwritten",
    "ended written",
)


def passing(point: str, ways: Sequence[str]) -> list[str]:
    """Those ways that come by a point when an effect is made."""
    return [way for way in ways if not (way == "atomic" and point.startswith("outside"))]


def found_out(point: str, ways: Sequence[str]) -> list[str]:
    """Those that come by it when it is found out what became of one."""
    asks = {"in_doubt": WAYS, "ended": ("probe", "native_key", "atomic"), "plugin": ("probe", "native_key")}
    return [way for way in ways if way in asks.get(point.split()[0], ("native_key",))]


def expected(point: str, way: str) -> tuple[int, str | None]:
    """The fence of an effect in the end whose daemon was killed at this point, and by whose word it is known."""
    if point in ("started unwritten", "ended written"):
        return 1, None  # nothing of it is left, or nothing to find out
    if way == "native_key":
        return 2, way  # it was made again, under a fence of its own
    if point in ("started written", "plugin unasked", "outside unasked"):
        return 3, None  # it was found that it had not happened, and then made anew
    return 1, "human" if way == "none" else way


@pytest.mark.req("K-08", "kill -9 at any point")
@pytest.mark.parametrize(
    ("ways", "making", "finding_out"),
    [
        (WAYS, ("started written", "plugin answered", "ended written"), ("in_doubt written", "ended unwritten")),
        *(pytest.param((way,), MAKING, FINDING_OUT, marks=pytest.mark.slow) for way in WAYS),
        pytest.param(WAYS, MAKING, FINDING_OUT, marks=pytest.mark.slow),
    ],
    ids=["at-some-points", *WAYS, "all-at-once"],
)
def test_whichever_the_point_at_which_a_daemon_is_killed_each_effect_happens_once(
    tmp_path: Path, ways: Sequence[str], making: Sequence[str], finding_out: Sequence[str]
) -> None:
    paddock = Paddock(tmp_path / "home", more=SOON)
    with counter_service() as service:
        install_counter(paddock, tmp_path, service)
        wishes = Wishes(paddock.home, service)
        for point in making:
            wanted = things(point, passing(point, ways))
            if not wanted:
                continue
            with daemon(Plan(point, tuple(wanted)).on(paddock)) as running:
                wishes.insist()
                doubts(paddock)  # a command that comes and goes beside the daemon, which has more to write
                asking = wishes.make_once(wanted)
                assert running.process.wait(PATIENCE) == -9
                for thread in asking:
                    thread.join(PATIENCE)
            if point == "plugin answered":  # all that there are have happened, and nobody knows
                for again in finding_out:
                    some = [thing for thing, way in wanted.items() if way in found_out(again, ways)]
                    left = [thing for thing in some if on_record(paddock.home)[thing][1] is None]
                    for thing in left[:1]:
                        with doomed(Plan(again, (thing,)).on(paddock)):
                            pass  # it finds out by itself
        with daemon(paddock):
            wishes.insist()
            wishes.check(paddock)
        at_its_point = {thing: point for point in making for thing in things(point, passing(point, ways))}
        if len(ways) > 1:  # of several, the others are somewhere else when the first is where nobody can wait
            at_its_point = {thing: at for thing, at in at_its_point.items() if at.endswith(" written")}
        known = on_record(paddock.home)
        # Each time that it is made again it has a fence of its own, and some of those daemons were killed too.
        for thing in at_its_point:
            if wishes.wanted[thing] == "native_key" and known[thing][1] is not None:
                known[thing] = (2, known[thing][1])
        assert {thing: known[thing] for thing in at_its_point} == {
            thing: expected(point, wishes.wanted[thing]) for thing, point in at_its_point.items()
        }
