"""What a process had sent before it died may arrive after somebody has looked for it in vain."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gate.effects.counting import Wishes, install_counter, on_record

from fixtures.breaking import Plan
from fixtures.commands import PATIENCE, Paddock
from fixtures.counter_service import counter_service
from fixtures.daemons import daemon

SETTLES = {"PADDOCK_EFFECTS_SETTLE_S": "2"}


@pytest.mark.parametrize(
    "way", ["late", pytest.param("late_crash", marks=pytest.mark.slow)], ids=["its host died", "its plugin died"]
)
def test_what_arrives_after_a_probe_has_looked_in_vain_is_not_made_again(tmp_path: Path, way: str) -> None:
    paddock = Paddock(tmp_path / "home", more=SETTLES)
    with counter_service() as service:
        install_counter(paddock, tmp_path, service)
        wishes = Wishes(paddock.home, service)
        if way == "late":
            with daemon(Plan("outside answered", ("one",)).on(paddock)) as running:
                (asking,) = wishes.make_once({"one": way})
                assert running.process.wait(PATIENCE) == -9
                asking.join(PATIENCE)
        else:
            wishes.wanted["one"] = way
        with daemon(paddock):
            wishes.insist()
            wishes.check(paddock)
    assert on_record(paddock.home) == {"one": (1, "probe")}
