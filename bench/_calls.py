"""Timing calls: one at a time, and many under way at once."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

Call: TypeAlias = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of calls."""

    seconds: float
    calls: int
    latencies: tuple[float, ...]
    cpu: float  # of our own process

    @property
    def p50(self) -> float:
        return statistics.median(self.latencies)

    @property
    def rate(self) -> float:
        return self.calls / self.seconds


THIS_THREAD = 0


@contextmanager
def on_two_cores(here: Sequence[int], there: Sequence[int]) -> Generator[None, None, None]:
    """Run the main threads of these processes on one core and of those on another, where there are two.

    Left alone, the kernel now and then puts two that take turns on one core, where waking the other up costs a tenth:
    what is compared would depend on where it happened to run.
    """
    before = {pid: os.sched_getaffinity(pid) for pid in (*here, *there)}
    cores = sorted(os.sched_getaffinity(THIS_THREAD))
    try:
        for pid in before if len(cores) > 1 else ():
            os.sched_setaffinity(pid, {cores[0] if pid in here else cores[1]})
        yield
    finally:
        for pid, could in before.items():
            os.sched_setaffinity(pid, could)


async def one_at_a_time(
    call: Callable[[], Awaitable[Any]], count: int, before: Callable[[], Awaitable[Any]] | None = None
) -> Measured:
    """So many calls; `before` is done before each, and counts for nothing."""
    latencies: list[float] = []
    cpu = 0.0
    for _ in range(count):
        if before is not None:
            await before()
        used, began = _cpu(), time.perf_counter()
        await call()
        latencies.append(time.perf_counter() - began)
        cpu += _cpu() - used
    return Measured(sum(latencies), count, tuple(latencies), cpu)


async def many_at_once(
    call: Callable[[], Awaitable[Any]],
    count: int,
    in_flight: int,
    at_the_end: Callable[[], Awaitable[Any]] | None = None,
) -> Measured:
    """So many calls, and `at_the_end` whatever they leave to be done."""
    left = count

    async def caller() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await call()

    cpu, start = _cpu(), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(in_flight)))
    if at_the_end is not None:
        await at_the_end()
    return Measured(time.perf_counter() - start, count, (0.0,), _cpu() - cpu)


async def on_each_way(calls: Sequence[Call], count: int) -> tuple[list[float], float]:
    """So many calls, one after another on each way; how long each took, and how many were made in a second."""
    left, taken = count, list[float]()

    async def caller(call: Call) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            await call()
            taken.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller(call) for call in calls))
    return taken, count / (time.perf_counter() - began)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
