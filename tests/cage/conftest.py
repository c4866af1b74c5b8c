"""Daemons that launch plugins: one that is root, one that is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cage.daemons import Daemon, open_daemon


@pytest.fixture(params=["root", "ordinary user"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    with open_daemon(ordinary=request.param == "ordinary user") as daemon:
        yield daemon


@pytest.fixture
def root_daemon() -> Iterator[Daemon]:
    with open_daemon() as daemon:
        yield daemon
