"""What `paddock doctor` says of the daemon and of the plugins that it should run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually
from fixtures.parrot import parrot
from paddock.cli.commands import doctor as command
from paddock.host.doctor.check import CheckStatus, text_lines
from paddock.host.doctor.daemon_check import evaluate_plugins


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    return Paddock(tmp_path / "home")


def looked(paddock: Paddock, code: int = 0) -> dict[str, Any]:
    (found,) = [one for one in paddock.quickly("doctor", "--json", code=code).json["checks"] if one["name"] == "daemon"]
    return found


def test_a_home_without_a_daemon_is_fine_and_how_to_start_one_is_said(paddock: Paddock) -> None:
    found = looked(paddock)

    assert (found["status"], found["found"]) == ("ok", "none runs for this home: paddock serve")
    assert not paddock.home.exists()


def test_a_daemon_is_found_with_what_runs_and_what_to_type_where_one_does_not(paddock: Paddock, tmp_path: Path) -> None:
    packages = parrot(tmp_path / "parrot"), parrot(tmp_path / "b", "broken", main="raise SystemExit('no feathers')")
    for name, package in zip(("parrot", "broken"), packages, strict=True):
        paddock("plugin", "install", package, "--yes")
        paddock("plugin", "enable", name, "--no-start")
    with daemon(paddock) as started:
        found = looked(paddock)
        shown = paddock("doctor").out

        assert (found["status"], found["code"]) == ("warn", "daemon.plugins_failed")
        assert found["found"] == "runs and answers; 1 plugin runs, 1 does not"
        assert "no feathers" in found["details"][0]
        assert "→ paddock plugin show broken; paddock plugin enable broken" in shown

        paddock("plugin", "disable", "broken")
        found = looked(paddock)
        assert (found["status"], found["found"]) == ("ok", "runs and answers; 1 plugin runs")
        assert started.stop() == 0
    assert looked(paddock)["found"].startswith("none runs")


def test_a_daemon_that_says_nothing_is_a_failure_and_not_no_daemon(
    paddock: Paddock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "DAEMON_TIMEOUT_S", 0.5)
    with daemon(paddock) as started:
        started.process.send_signal(signal.SIGSTOP)
        eventually(lambda: "T (stopped)" in Path(f"/proc/{started.process.pid}/status").read_text(), "it runs on")
        try:
            found = looked(paddock, code=1)
        finally:
            started.process.send_signal(signal.SIGCONT)
        assert started.stop() == 0

    assert (found["status"], found["code"]) == ("fail", "daemon.timeout")
    assert PATIENCE > command.DAEMON_TIMEOUT_S


def test_many_plugins_that_do_not_run_are_all_named_and_the_line_to_type_stays_short() -> None:
    failed = {"state": "failed", "on_demand": False, "reason": "it \x1b[2Jdied", "unused_config": ""}
    found = evaluate_plugins([{"name": f"plugin-{index}", "runtime": failed} for index in range(40)])

    assert (found.status, len(found.details)) == (CheckStatus.WARN, 40)
    assert [action.kind for action in found.actions].count("plugin.show") == 10
    assert all(line.isprintable() for line in text_lines([found]))
