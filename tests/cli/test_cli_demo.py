"""`paddock demo`: a real host with real plugins and somebody who asks, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, SOURCE, Paddock
from fixtures.daemons import eventually
from fixtures.demos import DEMO, demo
from paddock.demo.simulated_user import DEMO_REQUESTS, has_expired, reaction_text

ORDINARY = 65534


@pytest.fixture
def temporary(paddock: Paddock, tmp_path: Path) -> Paddock:
    """Commands whose temporary directories can be counted."""
    (tmp_path / "tmp").mkdir()
    return Paddock(paddock.home, more={"TMPDIR": str(tmp_path / "tmp")})


def left_behind(paddock: Paddock) -> list[str]:
    return [path.name for path in Path(paddock.more["TMPDIR"]).iterdir() if path.name.startswith("paddock-demo")]


def test_everything_that_a_visitor_meets_has_really_happened(temporary: Paddock) -> None:
    done = temporary("demo", "--json").json

    assert {one["dialect"] for one in done["installed"]} == {"native", "kaged", "shu", "kernel", "osqr", "mcp"}
    assert "greeter" not in {one["name"] for one in done["installed"]}, "the visitor installs that one"
    assert {"native-notes", "outbox", "mcp-units", "shu_notes"} <= set(done["running"])
    assert "broken-clock" not in done["running"]
    outcomes: dict[str, set[str]] = {}
    for one in done["calls"]:
        outcomes.setdefault(one["name"], set()).add(one["outcome"])
    assert outcomes["native-notes.add_note"] == {"succeeded"}
    assert outcomes["outbox.send"] == {"succeeded"}, "somebody approved it"
    assert outcomes["outbox.empty"] == {"policy_denied"}
    assert outcomes["broken-clock.time"] == {"succeeded", "plugin_error"}
    assert outcomes["fourth-generation-formula.book_writing_question"] == {"succeeded"}, "somebody said: always"
    assert outcomes["mcp-units.convert"] == {"succeeded", "tool.quarantined"}, "its server changed"
    assert done["waiting"].startswith("call_")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/login/\S+", done["url"])
    assert left_behind(temporary) == []
    assert not temporary.home.exists(), "the person's own home stays untouched"


@pytest.mark.slow
def test_without_a_terminal_it_tells_what_it_did_and_ends(temporary: Paddock) -> None:
    said = temporary("demo")

    assert said.out == ""
    assert "ready" not in said.err
    assert "paddock demo --stay" in said.err
    for words in ("example plugins in 6 manifest formats", "a host at http://127.0.0.1:", "Robin asks for the letter"):
        assert words in said.err
    assert left_behind(temporary) == []


@pytest.mark.slow
def test_it_stays_without_a_terminal_where_that_is_asked_for(temporary: Paddock) -> None:
    process = subprocess.Popen(
        [*DEMO, "--stay", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=temporary.environment,
        text=True,
    )
    with process:
        assert process.stderr is not None
        ready = next(line for line in process.stderr if "ready after" in line)
        (home,) = left_behind(temporary)
        plugins = Paddock(Path(temporary.more["TMPDIR"]) / home)("plugin", "list", "--json").json["plugins"]
        process.terminate()
        process.communicate(timeout=PATIENCE)

    assert ready
    assert any(one["runtime"]["state"] == "running" for one in plugins)
    assert process.returncode == 0
    assert left_behind(temporary) == []


@pytest.mark.slow
def test_where_no_plugin_can_run_it_says_that_and_not_that_it_is_ready(temporary: Paddock, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "bwrap").write_text("#!/bin/sh\necho 'bwrap: no namespaces here' >&2\nexit 1\n")
    (programs / "bwrap").chmod(0o755)
    path = {"PATH": f"{programs}:{temporary.environment['PATH']}"}

    said = Paddock(temporary.home, more={**temporary.more, **path})("demo", code=1)

    assert "no plugin runs on this machine" in said.err
    assert "paddock doctor" in said.err
    assert "ready" not in said.err
    assert left_behind(temporary) == []


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are run by an ordinary user already")
def test_an_ordinary_user_without_a_network_sees_the_same() -> None:
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if python is None or shutil.which("ip") is None:
        pytest.skip("no interpreter here can be run by an ordinary user, or a network cannot be made")
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, ORDINARY, ORDINARY)
        as_user = f"setpriv --reuid={ORDINARY} --regid={ORDINARY} --clear-groups"
        run = subprocess.run(
            ["unshare", "-n", "sh", "-c", f"ip link set lo up && exec {as_user} {python} -m paddock.cli demo --json"],
            env={
                "PATH": "/usr/sbin:/usr/bin:/bin",
                "HOME": folder,
                "TMPDIR": folder,
                "PYTHONPATH": ":".join(map(str, [SOURCE, *site.getsitepackages()])),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            cwd="/",
            capture_output=True,
            timeout=PATIENCE * 2,
            check=False,
        )
        assert run.returncode == 0, run.stderr.decode()
        assert len(json.loads(run.stdout)["running"]) > 5
        assert list(Path(folder).glob("paddock-demo*")) == []


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_on_a_terminal_it_serves_until_it_is_ended_and_leaves_nothing(temporary: Paddock, how: signal.Signals) -> None:
    with demo(temporary) as shown:
        plugins: list[dict[str, Any]] = shown.paddock("plugin", "list", "--json").json["plugins"]
        pids = [one["runtime"]["pid"] for one in plugins if one["runtime"]["state"] == "running"]
        assert len(pids) > 5

        assert shown.end(how) == 0

    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "a plugin still runs")
    assert left_behind(temporary) == []


@pytest.mark.slow
def test_a_demo_that_is_killed_takes_its_daemon_and_its_plugins_along(temporary: Paddock) -> None:
    with demo(temporary) as shown:
        plugins: list[dict[str, Any]] = shown.paddock("plugin", "list", "--json").json["plugins"]
        pids = [one["runtime"]["pid"] for one in plugins if one["runtime"]["state"] == "running"]
        assert len(pids) > 5

        assert shown.end(signal.SIGKILL) == -signal.SIGKILL

        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "a plugin still runs")


@pytest.mark.slow
def test_robin_gets_an_answer_says_thanks_and_asks_for_the_next_thing(temporary: Paddock) -> None:
    hurried = """
import sys
from paddock.cli.main import main
from paddock.demo.simulated_user import SimulatedUser

SimulatedUser.__init__.__defaults__ = (0.1,)
sys.argv = ["paddock", "demo"]
sys.exit(main())
"""
    with demo(temporary, command=(sys.executable, "-c", hurried)) as shown:
        served = shown.paddock
        for answer, words in (("approve", "letter about the oats is done"), ("deny", "about the vet stays undone")):
            (waiting,) = served("approval", "list", "--json").json["approvals"]
            assert waiting["for_person"] == "user:robin"
            served("approval", answer, waiting["id"], "--yes")
            shown.seen(words)
            shown.seen("waits for your answer")

        letters = served("call", "outbox.letters", "-p", "{}").json["letters"]
        notes = served("call", "native-notes.list_notes", "-p", '{"tag": "robin"}').json["notes"]
        assert letters[0]["to"] == "Ann, Hill Farm"
        assert len(notes) == 2
        assert shown.end() == 0


@pytest.mark.parametrize(("status", "words"), [("succeeded", "Thank you!"), ("failed", "stays undone")])
def test_robin_has_something_to_say_to_every_answer(status: str, words: str) -> None:
    for wish in DEMO_REQUESTS:
        assert words in reaction_text(wish, {"status": status})


def test_what_expired_was_answered_by_nobody() -> None:
    assert has_expired({"status": "failed", "error": {"code": "approval.expired"}})
    assert not has_expired({"status": "failed", "error": {"code": "approval.denied"}})
    assert not has_expired({"status": "succeeded"})
