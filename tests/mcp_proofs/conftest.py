"""A daemon with the server that the conformance suite wants to meet, and the programs that meet it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.mcp_proofs.behind import home_for_the_suite
from tests.mcp_proofs.node import programs

from fixtures.daemons import Daemon, daemon
from fixtures.people import key_of


@dataclass(frozen=True, slots=True)
class Suited:
    """The daemon, and a key that shows who calls over HTTP."""

    daemon: Daemon
    key: str

    @property
    def url(self) -> str:
        host, port = self.daemon.tcp
        return f"http://{host}:{port}/mcp"


@pytest.fixture(scope="module", params=["2026-07-28"])
def suited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Suited, None, None]:
    """The server speaks the revision that the test asks for, or the newest."""
    paddock = home_for_the_suite(tmp_path_factory.mktemp("suited"), request.param)
    paddock.quickly("user", "add", "ann")
    key = key_of(paddock, "ann")
    with daemon(paddock) as started:
        yield Suited(started, key)


@pytest.fixture(scope="session")
def npm_programs() -> Path:
    return programs()
