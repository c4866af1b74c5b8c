"""Daemons that start plugins warm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cage.daemons import Daemon, open_daemon
from tests.cage.warm.warming import warm_up


@pytest.fixture(scope="module", params=["root", "ordinary user"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon whose zygote is warm, for all tests of a file that leave it so."""
    with open_daemon(ordinary=request.param == "ordinary user", warm=True) as daemon:
        warm_up(daemon)
        yield daemon


@pytest.fixture(scope="module", params=["warm", "cold"])
def either_way(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon that starts plugins one way or the other, for all tests of a file."""
    with open_daemon(warm=request.param == "warm") as daemon:
        if request.param == "warm":
            warm_up(daemon)
        yield daemon
