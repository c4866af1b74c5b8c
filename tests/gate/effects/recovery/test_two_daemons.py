"""Two daemons share one PostgreSQL: whoever asks which of them for the same under one key, it happens once."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest
from tests.gate.effects.counting import SOON, Wishes, ask_nobody, install_counter

from fixtures.commands import PATIENCE, Paddock
from fixtures.counter_service import counter_service
from fixtures.daemons import daemon

CALLERS = 16  # of each daemon
KEYS = 12
OUTSIDE = ("none", "probe", "native_key")  # what is atomic is in the files of one home


@pytest.mark.req("K-08", "two nodes")
@pytest.mark.req("B-07", "one effect at several nodes")
def test_one_key_at_two_daemons_at_once_has_one_effect_and_one_answer(tmp_path: Path, postgres_address: str) -> None:
    one = Paddock(tmp_path / "one" / "home", store=postgres_address, more=SOON)
    other = Paddock(tmp_path / "other" / "home", store=postgres_address, more=SOON)
    with counter_service() as service:
        install_counter(one, tmp_path, service)
        # The trees of plugins are each home's own.
        shutil.copytree(one.trees, other.trees)
        ask_nobody(other.home)
        here, there = Wishes(one.home, service), Wishes(other.home, service)
        names = [f"thing-{number}" for number in range(KEYS)]
        for wishes in (here, there):
            wishes.wanted |= {thing: OUTSIDE[number % len(OUTSIDE)] for number, thing in enumerate(names)}
        together = threading.Barrier(2 * CALLERS)

        def insist(wishes: Wishes, seed: int) -> None:
            together.wait(PATIENCE)
            for thing in random.Random(seed).sample(names, KEYS):
                wishes.insist_on(thing)

        with daemon(one), daemon(other):
            callers = [
                threading.Thread(target=insist, args=(wishes, seed))
                for seed in range(CALLERS)
                for wishes in (here, there)
            ]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(PATIENCE * 2)
                assert not caller.is_alive()
            assert here.done == there.done == set(names)
            here.check(one)
            there.check(other)
