"""One history, made from one number: callers, hosts that die and come back, a bad disk, a bad plugin, a moved clock.

Whatever is drawn is drawn from the seed, so a history can be gone through again, step by step, as often as it takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

from tests.simulation.disk import Disk, Disks, disks
from tests.simulation.judge import Judge
from tests.simulation.life import DATABASE, Life
from tests.simulation.outside import TOOLS, Outside
from tests.simulation.store import open_direct_at

from paddock.gate.gate import Gate
from paddock.host.wiring.gate import build_gate
from paddock.store.migrate import migrate


@dataclass(frozen=True, slots=True)
class Rigging:
    """What a history is made with. Others than ours are there to see whether they are found out."""

    gate_of: Callable[..., Gate] = build_gate
    synchronous: str = "FULL"


@dataclass(slots=True)
class Caller:
    """Somebody who wants one thing."""

    number: int
    tool: str
    key: str | None
    what: str
    answered: bool = False  # with a success, or with a reason that will not change
    tries: int = 0

    def __str__(self) -> str:
        return f"caller {self.number}"


@dataclass(frozen=True, slots=True)
class History:
    """What came of one seed."""

    seed: int
    trace: tuple[str, ...]
    broken: tuple[str, ...]
    acts: int
    successes: int
    lives: int

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


def simulate(seed: int, rigging: Rigging | None = None) -> History:
    """Go through the history of a seed."""
    with disks() as all_disks:
        return World(seed, all_disks, rigging or Rigging()).run()


@cache
def _empty_store() -> dict[str, bytes]:
    """A store that was just made; making one takes longer than most histories."""
    with disks() as own:
        disk = Disk(Random(0), {DATABASE: b""})
        direct = open_direct_at(own.path(disk, DATABASE))
        migrate(direct)
        direct.close()
        return {name: bytes(file.current) for name, file in disk.files.items()}


class World:
    """Everything that outlives a host."""

    def __init__(self, seed: int, all_disks: Disks, rigging: Rigging) -> None:
        self.seed = seed
        self.disks = all_disks
        self.rigging = rigging
        self.chances = Random(f"{seed}")
        self.outside = Outside()
        self.trace: list[str] = []
        self.files = _empty_store()
        self.time = 0.0
        self.moved = self.latest = 0.0  # seconds by which the calendar is ahead, and was at most
        self.callers = self._callers()
        wishes = frozenset((caller.tool, caller.key, caller.what) for caller in self.callers)
        self.judge = Judge(self.outside, wishes)

    def _callers(self) -> list[Caller]:
        chances = self.chances
        keys = [f"k{number}" for number in range(chances.randint(1, 6))]
        made: list[Caller] = []
        for number in range(chances.randint(3, 24)):
            key = None if chances.random() < 0.1 else chances.choice(keys)
            what = "other" if chances.random() < 0.1 else f"of {key}"
            made.append(Caller(number, chances.choice(TOOLS), key, what))
        return made

    def run(self) -> History:
        lives = self.chances.randint(1, 5)
        for number in range(lives):
            if not self.judge.broken:
                Life(self, number, calm=False).run()
        if not self.judge.broken:
            Life(self, lives, calm=True).run()
        successes = len(self.judge.told)
        return History(
            self.seed, tuple(self.trace), tuple(self.judge.broken), len(self.outside.acts), successes, lives + 1
        )
