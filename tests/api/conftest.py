"""One daemon with a parrot, for every test that leaves both as they were."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.people import Peopled, peopled_daemon
from fixtures.prepared_homes import enabled_parrot, prepare_home


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("served")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    with daemon(paddock) as started:
        yield started


@pytest.fixture(scope="module")
def peopled(tmp_path_factory: pytest.TempPathFactory) -> Generator[Peopled, None, None]:
    with peopled_daemon(tmp_path_factory.mktemp("peopled")) as started:
        yield started
