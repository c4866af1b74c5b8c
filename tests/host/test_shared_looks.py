"""One look for all who wait for one, and none that began before somebody asked."""

from __future__ import annotations

import asyncio

import pytest

from paddock.core.single_flight import SharedRuns, SingleFlight


class Window:
    """Shows how often it was looked through; a look lasts until it is let go."""

    def __init__(self) -> None:
        self.looks = 0
        self.go_on = asyncio.Event()

    async def look(self, key: str) -> tuple[str, int]:
        self.looks += 1
        number = self.looks
        await self.go_on.wait()
        if key == "broken":
            raise ValueError(key)
        return key, number


async def begun(window: Window, looks: SingleFlight[str, tuple[str, int]], *keys: str) -> list[asyncio.Task[object]]:
    """Everybody who asks for these, waiting."""
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(looks.run(key)) for key in keys]
    for _ in range(3):
        await asyncio.sleep(0)
    assert window.looks
    return tasks


async def test_all_who_ask_while_somebody_looks_share_the_next_look() -> None:
    window = Window()
    looks = SingleFlight(window.look)
    first = await begun(window, looks, "a")
    later = await begun(window, looks, *["a"] * 50)
    window.go_on.set()

    assert await asyncio.gather(*first, *later) == [("a", 1), *[("a", 2)] * 50]
    assert await looks.run("a") == ("a", 3), "nothing is kept for whoever asks after"


async def test_looks_at_different_things_do_not_wait_for_each_other() -> None:
    window = Window()
    looks = SingleFlight(window.look)
    tasks = await begun(window, looks, "a", "b")

    assert window.looks == 2
    window.go_on.set()
    assert await asyncio.gather(*tasks) == [("a", 1), ("b", 2)]


async def test_whoever_gives_up_takes_nothing_from_the_others() -> None:
    window = Window()
    looks = SingleFlight(window.look)
    first, second = await begun(window, looks, "a", "a")
    first.cancel()
    window.go_on.set()

    assert await second == ("a", 2)
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_look_that_fails_fails_for_each_who_waits() -> None:
    window = Window()
    looks = SingleFlight(window.look)
    tasks = await begun(window, looks, "broken", "broken")
    window.go_on.set()

    assert [type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)] == [ValueError, ValueError]


async def test_callers_join_a_run_that_began_a_moment_ago_and_no_older_one() -> None:
    window, now = Window(), [0.0]
    runs: SharedRuns[str, tuple[str, int]] = SharedRuns(lambda: now[0], 1.0)
    first = asyncio.create_task(runs.join("a", lambda: window.look("a")))
    second = asyncio.create_task(runs.join("a", lambda: window.look("a")))
    await asyncio.sleep(0)
    now[0] = 1.0
    later = asyncio.create_task(runs.join("a", lambda: window.look("a")))
    await asyncio.sleep(0)
    first.cancel()
    window.go_on.set()

    assert (await second, await later) == (("a", 1), ("a", 2))
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_nobody_joins_a_run_that_began_before_everything_changed() -> None:
    window = Window()
    runs: SharedRuns[str, tuple[str, int]] = SharedRuns(lambda: 0.0, 1.0)
    before = runs.start("a", lambda: window.look("a"))
    runs.clear()
    after = runs.start("a", lambda: window.look("a"))
    window.go_on.set()

    assert (await before, await after) == (("a", 1), ("a", 2))
