"""Each cage of attempts is tried once; many tests then ask how their own attempt ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from tests.escape.stage import Outcome, attempts_for, caging, scene, try_in_cage

Tried = Callable[[str, str], Mapping[str, Outcome]]


@pytest.fixture(scope="session")
def tried() -> Iterator[Tried]:
    """How every attempt ended, for a way to start a cage and the user that the daemon runs as."""
    done: dict[tuple[str, str], Mapping[str, Outcome]] = {}

    def outcomes(way: str, user: str) -> Mapping[str, Outcome]:
        if (way, user) not in done:
            ordinary, warm = user != "root", way == "warm"
            with scene(ordinary=ordinary) as around, caging(ordinary=ordinary, warm=warm) as daemon:
                done[way, user] = try_in_cage(daemon, around, attempts_for(way), granted=way == "granted", warm=warm)
        return done[way, user]

    yield outcomes
