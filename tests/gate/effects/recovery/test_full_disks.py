"""The disk is full at one write of an effect's life after another: it happens once, and room is all that it takes."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from tests.gate.effects.counting import SOON, WAYS, Wishes, install_counter, make, things
from tests.gate.effects.in_progress.test_in_progress import NAME, Works

from fixtures.breaking import Plan
from fixtures.commands import PATIENCE, Paddock
from fixtures.counter_service import counter_service
from fixtures.daemons import daemon, eventually
from fixtures.small_disks import small_disk
from paddock.gate.idempotency.states import EffectState

OVER = {EffectState.SUCCEEDED, EffectState.IN_DOUBT}
WRITES = 3  # of a call: its start, its end, and what others write meanwhile


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path, None, None]:
    with small_disk(tmp_path / "disk", "6m") as place:
        yield place


def wanted_at(write: int) -> dict[str, str]:
    return things(f"write {write}", WAYS)


class Freeing:
    """Insists on things, and makes room whenever the disk is full."""

    def __init__(self, wishes: Wishes, disk: Path) -> None:
        self._wishes = wishes
        self._filler = disk / "filler"
        self.times = 0
        self.refused: set[str] = set()

    def insist_on(self, wanted: Mapping[str, str]) -> None:
        for thing, way in wanted.items():
            self._wishes.wanted[thing] = way
            eventually(lambda thing=thing, way=way: self._tried(way, thing), f"no answer about {thing}")

    def make_room(self) -> None:
        if self._filler.exists():
            self.times += 1
            self._filler.unlink()

    def _tried(self, way: str, thing: str) -> bool:
        answer = make(self._wishes.socket, way, thing)
        assert answer is not None
        if answer.status == 503:
            self.refused.add(answer.body["code"])
        self.make_room()
        return self._wishes.told(way, thing, answer)


@pytest.mark.slow
def test_a_disk_that_is_full_at_a_write_of_a_call_loses_and_repeats_nothing(tmp_path: Path, disk: Path) -> None:
    paddock = Paddock(disk / "home", more=SOON)
    with counter_service() as service:
        install_counter(paddock, tmp_path, service)
        wishes = Wishes(paddock.home, service)
        before = {thing: write for write in range(1, WRITES + 1) for thing in wanted_at(write)}
        callers = Freeing(wishes, disk)
        with daemon(Plan(fills=str(disk), before=before).on(paddock)):
            for write in range(1, WRITES + 1):
                callers.insist_on(wanted_at(write))
        callers.make_room()
        # Who comes again before the end is on record hears that the call is still under way.
        refused = callers.refused - {"effect.underway"}
        assert refused == {"store.full", "effect.unrecorded"}, "it was full at the start, and at the end"
        with daemon(paddock):
            wishes.check(paddock)


@pytest.mark.slow
def test_a_disk_that_is_full_while_it_is_found_out_loses_and_repeats_nothing(tmp_path: Path, disk: Path) -> None:
    paddock = Paddock(disk / "home", more=SOON)
    with counter_service() as service:
        install_counter(paddock, tmp_path, service)
        wishes = Wishes(paddock.home, service)
        callers = Freeing(wishes, disk)
        for write in range(1, WRITES + 1):
            wanted = wanted_at(write)
            with daemon(Plan("plugin answered", tuple(wanted)).on(paddock)) as running:
                asking = wishes.make_once(wanted)
                assert running.process.wait(PATIENCE) == -9
                for thread in asking:
                    thread.join(PATIENCE)
            with daemon(Plan(fills=str(disk), before={next(iter(wanted)): write}).on(paddock)):
                callers.insist_on(wanted)
            callers.make_room()
        assert callers.times == WRITES
        with daemon(paddock):
            wishes.check(paddock)


@pytest.mark.slow
def test_a_disk_that_is_full_when_work_goes_on_after_its_answer_loses_and_repeats_nothing(
    tmp_path: Path, disk: Path
) -> None:
    works, filler = Works(tmp_path, home=disk), disk / "filler"
    works.finish()
    before = {f"write-{write}": write for write in range(2, 7)}  # when it starts, is parked, or is taken up again
    refused = set[str]()
    breaking = Plan(fills=str(disk), before=before).on(Paddock(disk / "home"))
    with daemon(breaking) as running, ThreadPoolExecutor() as pool:

        def made(key: str) -> bool:
            asked = pool.submit(running.ask, "POST", "/calls", {"name": NAME, "params": {}}, Idempotency_Key=key)
            wait([asked], timeout=3)  # who has to wait for room gets no answer before
            filler.unlink(missing_ok=True)
            answer = asked.result(PATIENCE)
            if answer.status == 503:
                refused.add(answer.body["code"])
            return answer.status == 200 or answer.body["code"] != "store.full"  # else it has not started

        for key in before:
            eventually(lambda key=key: made(key), f"{key} was made")
            eventually(lambda key=key: works.effect(key).state in OVER, f"what became of {key} is known")
    assert "effect.unrecorded" in refused
    assert {works.effect(key).state for key in before} == OVER, (
        "it was full when one was parked, and when another ended"
    )
    assert works.begun == list(before)
