"""Daemons are killed at one moment after another while calls with effects are made: none is lost or happens twice."""

from __future__ import annotations

import queue
import random
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.gate.effects.counting import SOON, WAYS, Wishes, doubts, install_counter

from fixtures.commands import PATIENCE, Paddock
from fixtures.counter_service import counter_service
from fixtures.daemons import Daemon, daemon, doomed

CALLERS = 8
SEED = 20260101


class Callers:
    """Those who make the calls, each one after another, and do not give up because a daemon dies."""

    def __init__(self, wishes: Wishes, patience: float) -> None:
        self._wishes = wishes
        self._patience = patience
        self._left: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._make_calls) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def want(self, *some: str) -> None:
        for thing in some:
            self._left.put(thing)

    def join(self) -> None:
        for _ in self._threads:
            self._left.put(None)
        for thread in self._threads:
            thread.join(self._patience + PATIENCE)
            assert not thread.is_alive()

    def _make_calls(self) -> None:
        while (thing := self._left.get()) is not None:
            self._wishes.insist_on(thing, self._patience)


@contextmanager
def calling(wishes: Wishes, patience: float) -> Generator[Callers, None, None]:
    callers = Callers(wishes, patience)
    try:
        yield callers
    except BaseException:
        wishes.given_up = True
        raise
    finally:
        callers.join()


def kill_at(running: Daemon, moment: float) -> None:
    """Kill a daemon so many seconds from now."""
    with pytest.raises(subprocess.TimeoutExpired):
        running.process.wait(moment)
    running.process.send_signal(signal.SIGKILL)


@pytest.mark.req("K-08", "kill -9 at any point")
@pytest.mark.parametrize(("kills", "wanted"), [(4, 60), pytest.param(200, 1_000, marks=pytest.mark.slow)])
def test_whatever_the_moment_at_which_a_daemon_is_killed_nothing_is_lost_or_happens_twice(
    tmp_path: Path, kills: int, wanted: int
) -> None:
    paddock = Paddock(tmp_path / "home", more=SOON)
    chance = random.Random(SEED)
    names = [f"thing-{number}" for number in range(wanted)]
    share = wanted // (kills + 1)
    with counter_service() as service:
        install_counter(paddock, tmp_path, service)
        wishes = Wishes(paddock.home, service)
        wishes.wanted |= {thing: WAYS[number % len(WAYS)] for number, thing in enumerate(names)}
        begun = time.monotonic()
        with calling(wishes, patience=PATIENCE * 10) as callers:
            with daemon(paddock):  # nobody is killed here: how long it takes to start, and to do its share
                start = time.monotonic() - begun
                begun = time.monotonic()
                callers.want(*names[:share])
                for thing in names[:share]:
                    wishes.insist_on(thing)
                work = time.monotonic() - begun
            for number in range(1, kills + 1):
                some = names[number * share : (number + 1) * share]
                if number % 5 == 0:  # what the one before had under way is being found out, or not even looked at
                    with doomed(paddock) as running:
                        callers.want(*some)
                        kill_at(running, chance.uniform(0, start))
                else:
                    with daemon(paddock) as running:
                        if number % 4 == 0:
                            doubts(paddock)  # a command that comes and goes beside it
                        callers.want(*some)
                        kill_at(running, chance.uniform(0, work))
            with daemon(paddock):
                callers.want(*names[(kills + 1) * share :])
                callers.join()
                wishes.check(paddock)


@pytest.mark.req("K-08", "64 callers")
def test_many_callers_with_one_key_get_one_effect_and_one_answer(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home", more=SOON)
    with counter_service() as service:
        install_counter(paddock, tmp_path, service)
        wishes = Wishes(paddock.home, service)
        wishes.wanted |= {"one": "none"}
        together = threading.Barrier(64)

        def insist() -> None:
            together.wait(PATIENCE)
            wishes.insist_on("one")
            heard.append(1)

        heard: list[int] = []
        with daemon(paddock):
            callers = [threading.Thread(target=insist) for _ in range(64)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(PATIENCE * 2)
            assert len(heard) == 64
            wishes.check(paddock)
