"""Ids are unique, sort by time, and cannot be made with odd prefixes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import HostError
from paddock.core.ids import new_id, new_ids

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class At:
    time: datetime

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return 0.0


class Fixed:
    def __init__(self, value: bytes) -> None:
        self.value = value

    def bytes(self, count: int) -> bytes:
        return self.value[:count]


chance = st.lists(st.integers(0, 31), min_size=16, max_size=16).map(bytes)


@given(st.integers(1, 10**12), chance, chance)
def test_a_later_id_sorts_after_an_earlier_one(later_ms: int, first: bytes, second: bytes) -> None:
    later = START + timedelta(milliseconds=later_ms)
    assert new_id("call", At(START), Fixed(first)) < new_id("call", At(later), Fixed(second))


@given(chance, chance)
def test_within_a_millisecond_ids_differ_exactly_as_their_randomness_does(first: bytes, second: bytes) -> None:
    one, two = (new_id("ev", At(START), Fixed(value)) for value in (first, second))
    assert (one < two) == (first < second)
    assert (one == two) == (first == second)


def test_ids_of_the_real_clock_are_unique_and_easy_to_read() -> None:
    made = {new_id("call", SystemClock(), SystemRandom()) for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(text) == 31 and text.startswith("call_") and text == text.lower() for text in made)


@pytest.mark.parametrize("prefix", ["", "Call", "a_b", "a\n", "x" * 13])
def test_an_odd_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(HostError):
        new_id(prefix, SystemClock(), SystemRandom())


def test_the_system_clock_speaks_utc_and_never_runs_back() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()


def test_ids_that_are_made_at_once_are_unique_and_sort_in_their_order() -> None:
    made = new_ids("evt", 5_000, At(START), Fixed(b"\xff" * 16))
    assert len(set(made)) == 5_000
    assert made == sorted(made)
    assert made[0] > new_id("evt", At(START), Fixed(b"\x00" * 16))


FORKING = """
import os
from paddock.core.clock import SystemRandom
random = SystemRandom()
random.bytes(10)
pid = os.fork()
print(random.bytes(10).hex(), flush=True)
if pid: os.waitpid(pid, 0)
"""


def test_random_bytes_are_new_for_every_thread_and_in_every_copy_of_the_process() -> None:
    random = SystemRandom()
    with ThreadPoolExecutor(8) as threads:
        drawn = threads.map(lambda _: [random.bytes(10) for _ in range(2_000)], range(8))
    assert len({piece for pieces in drawn for piece in pieces}) == 16_000
    assert {len(random.bytes(size)) for size in (0, 1, 16, 17, 64)} == {0, 1, 16, 17, 64}

    path = {"PYTHONPATH": str(Path(paddock.__file__).parents[1])}
    said = subprocess.run([sys.executable, "-c", FORKING], env=path, capture_output=True, text=True, check=True).stdout
    assert len(set(said.split())) == 2
