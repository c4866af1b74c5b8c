"""Turning knobs from the command line: the same with a daemon, whose plugin goes by it, and without."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock, Said
from fixtures.daemons import daemon
from fixtures.packages import native
from fixtures.prepared_homes import prepare_home
from fixtures.tuner import KNOBS, enabled_tuner, tuner


@pytest.fixture
def tuned(paddock: Paddock) -> Paddock:
    prepare_home(paddock, enabled_tuner)
    return paddock


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.slow)], ids=["with a daemon", "alone"])
def either(request: pytest.FixtureRequest, tuned: Paddock) -> Generator[Paddock, None, None]:
    with daemon(tuned) if request.param else nullcontext():
        yield tuned


def values(said: Said) -> dict[str, Any]:
    return {knob["name"]: knob["value"] for knob in said.json["knobs"]}


def given(paddock: Paddock) -> dict[str, Any]:
    return paddock("call", "tuner.tell").json["config"]


def test_what_is_typed_is_read_as_what_the_knob_takes_and_reaches_the_plugin(either: Paddock) -> None:
    typed = ("warmth=0.25", "turns=7", "loud=yes", "notes=a=b", "model=deep", "colour=red", "budget=low")

    turned = either("plugin", "knob", "tuner", *typed, "--json")

    wanted = {"warmth": 0.25, "turns": 7, "loud": True, "notes": "a=b", "model": "deep", "colour": "red"}
    assert wanted.items() <= values(turned).items()
    assert wanted.items() <= given(either).items()
    back = either("plugin", "knob", "tuner", "turns=8", "--reset", "loud", "--reset", "colour")
    assert "set turns, put loud back to its default" in back.err
    assert (given(either)["turns"], given(either)["loud"], given(either)["colour"]) == (8, False, "grey")
    recorded = either("ledger", "tail", "--type", "plugin.knob_write", "--json").json["entries"]
    assert len(recorded) == len(typed) + 3


def test_every_mistake_is_told_and_nothing_is_set(either: Paddock) -> None:
    typed = ("warmth=hot", "turns=NaN", "loud=maybe", "volume=1", "colour=red")

    refused = either("plugin", "knob", "tuner", *typed, "--reset", "nothing", "--json", code=6)

    assert refused.error["code"] == "knobs.invalid"
    paths = [one["path"] for one in refused.error["errors"]]
    assert sorted(paths) == ["knobs.loud", "knobs.turns", "knobs.volume", "knobs.warmth", "reset[0]"]
    assert values(either("plugin", "knob", "tuner", "--json"))["colour"] == "grey"


@pytest.mark.slow
def test_the_same_holds_on_a_shared_store(postgres_address: str, tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home", store=postgres_address)
    paddock("plugin", "install", tuner(tmp_path / "tuner"), "--yes")
    paddock("plugin", "enable", "tuner")
    paddock("plugin", "knob", "tuner", "turns=7", "notes=\u00fc")
    with daemon(paddock):
        assert (given(paddock)["turns"], given(paddock)["notes"]) == (7, "\u00fc")
        paddock("plugin", "knob", "tuner", "turns=8", "--reset", "notes")
        assert (given(paddock)["turns"], given(paddock)["notes"]) == (8, "")
        paddock("plugin", "remove", "tuner", "--yes")
        paddock("plugin", "install", tmp_path / "tuner", "--yes")
    assert values(paddock("plugin", "knob", "tuner", "--json"))["turns"] == 3


@pytest.mark.slow
def test_what_the_running_plugin_refuses_is_told_with_its_reason(tuned: Paddock) -> None:
    with daemon(tuned):
        refused = tuned("plugin", "knob", "tuner", "colour=puce", code=7)

    assert "no such colour" in refused.err
    assert values(tuned("plugin", "knob", "tuner", "--json"))["colour"] == "grey"


def test_without_a_setting_all_are_listed_with_what_each_takes(tuned: Paddock, tmp_path: Path) -> None:
    tuned.quickly("plugin", "knob", "tuner", "turns=7")
    narrower = {**KNOBS, "turns": {**KNOBS["turns"], "max": 5}}
    tuned.quickly("plugin", "upgrade", "tuner", tuner(tmp_path / "newer", "1.1.0", knobs=narrower), "--yes")

    listed = tuned.quickly("plugin", "knob", "tuner")

    lines = {line.split()[0]: line for line in listed.out.splitlines()}
    assert "3" in lines["turns"] and "1 to 5" in lines["turns"] and "default" in lines["turns"]
    assert "low, mid, high" in lines["budget"]
    assert "a path below config:/" in lines["store"]
    assert "turns: 7 is not used" in listed.err
    assert "paddock plugin knob tuner --reset turns" in listed.err


def test_a_plugin_without_knobs_says_so_and_what_is_no_setting_is_a_mistake_of_usage(
    paddock: Paddock, source: Path
) -> None:
    paddock.quickly("plugin", "install", native(source, name="plain"), "--yes")

    assert "plain has no knobs" in paddock.quickly("plugin", "knob", "plain").err
    paddock.quickly("plugin", "knob", "plain", "turns", code=2)
    assert "plugin knob --help" in paddock.quickly("plugin", "knob", "plain", "--reset", code=2).err
    paddock.quickly("plugin", "knob", "plain", "turns=1", "turns=2", code=2)
    assert paddock.quickly("plugin", "knob", "nobody", "--json", code=3).error["code"] == "plugin.not_found"
    refused = paddock.quickly("plugin", "knob", "plain", "turns=1", "--json", code=6)
    assert refused.error["errors"][0]["hint"] == "it has no knobs"


@pytest.mark.parametrize("served", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["with a daemon", "alone"])
def test_another_tenant_has_values_of_its_own(tuned: Paddock, served: bool) -> None:
    tuned.quickly("tenant", "add", "acme")
    with daemon(tuned) if served else nullcontext():
        tuned("plugin", "knob", "tuner", "turns=9", "--tenant", "acme")

        assert values(tuned("plugin", "knob", "tuner", "--tenant", "acme", "--json"))["turns"] == 9
        assert values(tuned("plugin", "knob", "tuner", "--json"))["turns"] == 3
