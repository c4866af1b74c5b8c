"""Knobs over HTTP: what a person may tune, without anything that is secret."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon

MEMORY = Path(__file__).parents[3] / "examples" / "memory-markdown"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    paddock = Paddock(tmp_path_factory.mktemp("knobs") / "home")
    paddock("plugin", "install", MEMORY, "--yes")
    with daemon(paddock) as started:
        yield started


def test_the_knobs_of_a_plugin_are_told_with_what_each_accepts_and_is(served: Daemon) -> None:
    shown = served.ask("GET", "/plugins/memory-markdown/knobs").body

    knobs = {one["name"]: one for one in shown["knobs"]}
    store, isolation = knobs["store"], knobs["isolation"]
    assert (store["type"], store["binds_to"], store["value"]) == ("path", "config.store", "config:/memory")
    assert isolation["accepts"] == {"enum": ["agent", "project"]}
    assert isolation["options"]["labels"]["agent"] == "Each agent for itself"
    assert served.ask("GET", "/plugins/nobody/knobs").status == 404
