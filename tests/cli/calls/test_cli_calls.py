"""`paddock call`: what became of calls that nobody waits for."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon
from fixtures.prepared_homes import enabled_parrot, prepare_home


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Paddock, None, None]:
    """A home with an enabled parrot and a daemon."""
    folder = tmp_path_factory.mktemp("calls")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    with daemon(paddock):
        yield paddock


def detached(paddock: Paddock, name: str, params: str = "{}") -> str:
    return paddock("call", name, "-p", params, "--detach").out.strip()


def test_a_detached_call_is_followed_to_its_result(served: Paddock) -> None:
    said = served("call", "follow", detached(served, "parrot.count"))

    assert said.json == {"counted": 3}
    assert said.err.splitlines() == ["1/3 counting", "2/3 counting", "3/3 counting"]


def test_following_one_that_failed_ends_as_the_call_itself_would_have(served: Paddock) -> None:
    said = served("call", "follow", detached(served, "parrot.burn"), "--json", code=7)

    assert said.error["message"] == "parrot failed (KeyError)"


def test_a_call_is_shown_with_what_became_of_it(served: Paddock) -> None:
    good, bad = detached(served, "parrot.say", '{"text": "hi"}'), detached(served, "parrot.burn")
    for call_id in (good, bad):
        served("call", "follow", call_id, code=0 if call_id == good else 7)

    shown = served("call", "show", good)
    assert shown.json["said"] == "hi"
    assert shown.err.startswith("parrot.say succeeded, since 2")
    assert "error: parrot failed (KeyError)\n  → paddock plugin logs parrot" in served("call", "show", bad).err
    assert served("call", "show", bad, "--json").json["status"] == "failed"


@pytest.mark.req("B-18", "page of a call")
def test_a_call_is_shown_with_who_made_it_what_was_decided_and_what_its_plugin_logged(served: Paddock) -> None:
    call_id = detached(served, "parrot.note", '{"text": "oats", "api_key": "s3cret"}')
    served("call", "follow", call_id)

    shown = served("call", "show", call_id)
    for part in (
        "from the command line",
        '"text": "oats"',
        "left out as secret: api_key",
        "operators-may-call",
        "noted",
    ):
        assert part in shown.err
    assert "s3cret" not in shown.err
    record = served("call", "show", call_id, "--json").json
    assert [span["kind"] for span in record["timeline"]][-1] == "ran"
    assert (record["outcome"], record["links"]["page"]) == ("succeeded", f"/calls/{call_id}")


def test_a_call_of_an_earlier_host_is_shown_without_a_daemon(paddock: Paddock, tmp_path: Path) -> None:
    prepare_home(paddock, enabled_parrot)
    paddock("call", "parrot.say", "-p", '{"text": "hay"}')
    (entry,) = paddock("ledger", "tail", "--type", "call.ended", "--json").json["entries"]

    shown = paddock("call", "show", entry["call"])
    assert '"text": "hay"' in shown.err
    assert "result: no longer kept" in shown.err


def test_a_call_under_way_is_listed_and_cancelled(served: Paddock) -> None:
    call_id = detached(served, "parrot.wait")

    listed = served("call", "list", "--json").json["calls"][0]
    assert (listed["call_id"], listed["callable"], listed["status"]) == (call_id, "wait", "running")
    assert "result" not in listed
    assert call_id in served("call", "list").out.splitlines()[1]
    assert "parrot.wait cancelled" in served("call", "cancel", call_id).err
    assert served("call", "cancel", call_id, "--json").json["status"] == "cancelled"  # again changes nothing


def test_whoever_stops_following_leaves_the_call_alone(served: Paddock) -> None:
    call_id = detached(served, "parrot.wait")
    process = served.start("call", "follow", call_id)
    assert process.stderr is not None
    process.stderr.readline()  # it follows

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 130
    assert f"paddock call cancel {call_id}" in err
    assert served("call", "show", call_id, "--json").json["status"] == "running"
    served("call", "cancel", call_id)


@pytest.mark.parametrize("what", ["show", "follow", "cancel"])
def test_a_call_that_nobody_knows_is_not_found(served: Paddock, what: str) -> None:
    assert served("call", what, "call_nobody/made", "--json", code=3).error["code"]


def test_what_became_of_a_call_from_before_a_restart_is_found_elsewhere_and_that_is_said(served: Paddock) -> None:
    refused = served("call", "follow", "call_before", "--json", code=3).error

    assert refused["code"] == "call.not_found"
    assert refused["action"] == {"kind": "call.explain", "arguments": {"call": "call_before"}}


@pytest.mark.parametrize("words", [["list"], ["follow", "x"], ["answer", "x", "{}"], ["cancel", "x"]])
def test_without_a_daemon_it_is_said_that_one_is_needed(paddock: Paddock, words: list[str]) -> None:
    refused = paddock.quickly("call", *words, "--json", code=1).error

    assert refused["code"] == "daemon.not_running"
    assert "paddock serve" in refused["hint"]


def test_so_it_is_for_following_a_log(paddock: Paddock) -> None:
    assert paddock.quickly("plugin", "logs", "x", "-f", "--json", code=1).error["code"] == "daemon.not_running"
