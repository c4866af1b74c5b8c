"""Turning knobs over HTTP: a real plugin in a cage goes by it, and what it does not take is kept nowhere."""

from __future__ import annotations

import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Answer, Daemon, daemon, doomed, eventually
from fixtures.people import key_of
from fixtures.prepared_homes import prepare_home
from fixtures.tuner import CONFIG_SCHEMA, KNOBS, enabled_tuner, tuner

TURNED = {
    "warmth": 0.9,
    "turns": 7,
    "budget": "high",
    "loud": True,
    "colour": "green",
    "notes": "two\nlines",
    "model": None,
    "store": "config:/memory/deep",
}
DEFAULTS = {name: field["default"] for name, field in CONFIG_SCHEMA["properties"].items()}
PATH = "/plugins/tuner/knobs"


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    paddock = Paddock(tmp_path / "home")
    prepare_home(paddock, enabled_tuner)
    return paddock


@pytest.fixture
def served(paddock: Paddock) -> Generator[Daemon, None, None]:
    with daemon(paddock) as started:
        yield started


def turn(served: Daemon, knobs: dict[str, Any], *, reset: tuple[str, ...] = (), tenant: str = "default") -> Answer:
    return served.ask("PUT", f"{PATH}?tenant={tenant}", {"knobs": knobs, "reset": list(reset)})


def values(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.body
    return {knob["name"]: knob["value"] for knob in answer.body["knobs"]}


def given(served: Daemon, tenant: str = "default") -> dict[str, Any]:
    """The configuration as the plugin itself tells it."""
    told = served.ask("POST", f"/plugins/tuner/call/tell?tenant={tenant}", {})
    assert told.status == 200, told.body
    return told.body["result"]["config"]


def written(served: Daemon, tenant: str = "default") -> list[dict[str, Any]]:
    """What the record has about knobs, the oldest first."""
    found = served.ask("GET", f"/ledger?type=plugin.knob_write&tenant={tenant}").body["entries"]
    return [{**entry["facts"], **entry["personal"]} for entry in sorted(found, key=lambda entry: entry["seq"])]


@pytest.mark.req("G-14", "a write reaches the plugin")
@pytest.mark.req("G-29", "plugin.knob_write")
def test_a_knob_of_every_type_reaches_the_running_plugin_before_the_answer_and_is_recorded(served: Daemon) -> None:
    pid = served.ask("GET", "/plugins/tuner").body["runtime"]["pid"]

    turned = turn(served, TURNED)

    assert values(turned) == TURNED
    assert all(knob["set"] for knob in turned.body["knobs"])
    assert served.ask("GET", PATH).body == turned.body
    own = given(served)
    assert own == TURNED | {"store": str(served.paddock.home / "data/files/tuner/memory/deep")}
    assert served.ask("GET", "/plugins/tuner").body["runtime"]["pid"] == pid, "without another process"
    entries = written(served)
    assert sorted(one["knob"] for one in entries) == sorted(TURNED)
    assert {one["name"] for one in entries} == {"tuner"}
    assert len({one["request_id"] for one in entries}) == 1, "one request turned them"
    assert not any("agent_path" in one for one in entries), "and for no agent in particular"


@pytest.mark.slow
def test_null_and_reset_put_knobs_back_to_their_defaults_and_what_does_not_change_is_not_recorded(
    served: Daemon,
) -> None:
    turn(served, TURNED)
    before = len(written(served))

    back = turn(served, {"turns": None, "colour": "green"}, reset=("budget", "model"))

    assert values(back) == TURNED | {"turns": 3, "budget": "mid", "model": "fast"}
    assert {knob["name"] for knob in back.body["knobs"] if not knob["set"]} == {"turns", "budget", "model"}
    assert (given(served)["turns"], given(served)["budget"], given(served)["model"]) == (3, "mid", "fast")
    assert sorted(one["knob"] for one in written(served)[before:]) == ["budget", "model", "turns"]
    assert turn(served, {}).body == back.body
    assert len(written(served)) == before + 3


def test_every_mistake_is_told_with_its_path_and_nothing_is_turned(served: Daemon) -> None:
    wrong = {
        "warmth": 1.5,
        "turns": 13,  # the knob takes it, and the plugin's own schema does not
        "budgett": "low",
        "loud": "yes",
        "colour": "Dark Red",
        "notes": "x" * 65_537,
        "model": 5,
        "store": "config:/../other",
        "budget": "high",
    }

    refused = turn(served, wrong, reset=("budget", "volume"))

    assert (refused.status, refused.body["code"]) == (400, "knobs.invalid")
    said = {one["path"]: one for one in refused.body["errors"]}
    assert set(said) == {
        *(f"knobs.{name}" for name in wrong if name != "budget"),
        *("reset[0]", "reset[1]"),
    }
    assert said["knobs.budgett"]["hint"] == "did you mean budget?"
    assert "warmth" in said["reset[1]"]["hint"]
    assert values(served.ask("GET", PATH)) == DEFAULTS
    assert given(served)["budget"] == "mid"
    assert written(served) == []
    for body in ({"knobs": []}, {"reset": "turns"}, {"knob": {}}):
        assert served.ask("PUT", PATH, body).body["code"] == "invalid_params"
    assert served.ask("PUT", "/plugins/nobody/knobs", {"knobs": {}}).status == 404


def test_what_the_plugin_refuses_is_kept_nowhere_and_the_answer_says_why(served: Daemon) -> None:
    turn(served, {"colour": "green"})

    refused = turn(served, {"colour": "puce", "turns": 9})

    assert (refused.status, refused.body["code"]) == (502, "knobs.refused")
    assert "no such colour" in refused.body["detail"]
    assert values(served.ask("GET", PATH)) == DEFAULTS | {"colour": "green"}
    assert (given(served)["colour"], given(served)["turns"]) == ("green", 3)
    assert [one["knob"] for one in written(served)] == ["colour"]
    served.ask("POST", "/reconcile")
    assert served.ask("GET", "/plugins/tuner").body["runtime"]["unused_config"] == ""


@pytest.mark.slow
def test_those_who_turn_knobs_at_the_same_time_all_have_their_way(served: Daemon) -> None:
    alone = [{name: value} for name, value in TURNED.items()]

    with ThreadPoolExecutor(len(alone)) as people:
        answers = list(people.map(lambda knobs: turn(served, knobs), alone))

    assert [answer.status for answer in answers] == [200] * len(alone)
    assert values(served.ask("GET", PATH)) == TURNED
    assert given(served)["colour"] == "green"


@pytest.mark.slow
def test_a_plugin_that_does_not_say_whether_it_takes_them_is_told_again_what_it_had(served: Daemon) -> None:
    late = turn(served, {"colour": "slow"})

    assert (late.status, late.body["code"]) == (504, "plugin.timeout")
    assert values(served.ask("GET", PATH)) == DEFAULTS
    eventually(lambda: given(served)["colour"] == "grey", "told again")
    assert written(served) == []


def test_a_daemon_that_is_killed_right_after_the_answer_has_lost_nothing(paddock: Paddock) -> None:
    with doomed(paddock) as first:
        first.told(event="ready")
        first.settled()
        turn(first, {"turns": 11})
        first.process.send_signal(signal.SIGKILL)

    with daemon(paddock) as second:
        assert values(second.ask("GET", PATH))["turns"] == 11
        assert given(second)["turns"] == 11
        assert [one["knob"] for one in written(second)] == ["turns"]


def test_each_tenant_has_values_of_its_own_and_only_its_operators_turn_them(paddock: Paddock) -> None:
    paddock.quickly("tenant", "add", "acme")
    paddock("plugin", "enable", "tuner", "--tenant", "acme", "--yes")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    paddock.quickly("user", "add", "zoe", "--tenant", "acme")
    omar = f"Bearer {key_of(paddock, 'omar', '--tenant', 'acme', '--role', 'operator')}"
    zoe = f"Bearer {key_of(paddock, 'zoe', '--tenant', 'acme')}"
    with daemon(paddock) as served:
        turn(served, {"turns": 5})
        theirs = served.ask_tcp("PUT", PATH, {"knobs": {"turns": 6}}, authorization=omar)

        assert values(theirs)["turns"] == 6
        assert values(served.ask("GET", PATH))["turns"] == 5
        assert (given(served)["turns"], given(served, "acme")["turns"]) == (5, 6)
        (entry,) = written(served, "acme")
        assert (entry["knob"], entry["principal"].partition(":")[0]) == ("turns", "key")
        assert served.ask_tcp("PUT", PATH, {"knobs": {"turns": 1}}, authorization=zoe).status == 403
        assert served.ask_tcp("PUT", f"{PATH}?tenant=default", {"knobs": {}}, authorization=omar).status == 404
        assert values(served.ask("GET", f"{PATH}?tenant=acme"))["turns"] == 6


@pytest.mark.slow
def test_an_upgrade_keeps_what_fits_and_leaves_out_what_does_not_and_a_way_back_has_it_again(
    paddock: Paddock, tmp_path: Path
) -> None:
    narrower = {**KNOBS, "turns": {**KNOBS["turns"], "max": 5}}
    del narrower["loud"]
    with daemon(paddock) as served:
        turn(served, {"turns": 7, "loud": True, "colour": "green"})
        paddock("plugin", "upgrade", "tuner", tuner(tmp_path / "newer", "1.1.0", knobs=narrower), "--yes")

        shown = served.ask("GET", PATH)
        assert (shown.body["version"], values(shown)["turns"], values(shown)["colour"]) == ("1.1.0", 3, "green")
        assert [(one["knob"], one["value"]) for one in shown.body["left_out"]] == [("loud", True), ("turns", 7)]
        assert shown.body["left_out"][0]["reason"] == "this version has no such knob"
        own = given(served)
        assert (own["turns"], own["loud"], own["colour"]) == (3, False, "green")
        log = [line["line"] for line in served.ask("GET", "/plugins/tuner/logs").body["lines"]]
        assert any(line.startswith("[paddock] the knob loud is not at what was set: this version") for line in log)
        assert any(line.startswith("[paddock] the knob turns is not at what was set: ") for line in log)

        paddock("plugin", "rollback", "tuner", "--yes")
        assert (given(served)["turns"], given(served)["loud"]) == (7, True)
        paddock("plugin", "upgrade", "tuner", tmp_path / "newer", "--yes")
        assert turn(served, {}, reset=("loud", "turns")).body["left_out"] == []


@pytest.mark.slow
def test_what_was_set_goes_with_the_plugin_for_every_tenant(paddock: Paddock, tmp_path: Path) -> None:
    paddock.quickly("tenant", "add", "acme")
    with daemon(paddock) as served:
        turn(served, {"turns": 5})
        assert values(turn(served, {"turns": 6}, tenant="acme"))["turns"] == 6  # it does not run there
        paddock("plugin", "remove", "tuner", "--yes")
        paddock("plugin", "install", tuner(tmp_path / "tuner"), "--yes")
        paddock("plugin", "enable", "tuner")

        assert values(served.ask("GET", PATH)) == values(served.ask("GET", f"{PATH}?tenant=acme")) == DEFAULTS
        assert given(served)["turns"] == 3


@pytest.mark.slow
def test_projects_and_agents_are_refused_as_long_as_there_are_none(served: Daemon) -> None:
    for method, query in (("GET", "project=shop"), ("PUT", "project=shop&agent=writer"), ("PUT", "agent=writer")):
        refused = served.ask(method, f"{PATH}?{query}", {"knobs": {"turns": 5}} if method == "PUT" else None)
        assert (refused.status, refused.body["code"]) == (404, "knobs.no_project")
        assert "leave project and agent out" in refused.body["detail"]
    assert values(served.ask("GET", PATH)) == DEFAULTS
