"""One daemon with a parrot and a butler, for every test that leaves them as they were."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.parrot import parrot


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("gateway")
    paddock = Paddock(folder / "home")
    for make in (parrot, butler):
        paddock.quickly("plugin", "install", make(folder / make.__name__), "--yes")
        paddock.quickly("plugin", "enable", make.__name__)
    with daemon(paddock) as started:
        yield started
