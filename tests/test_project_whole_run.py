"""`./run test --all` goes room by room, resumes, and is what `./run requirements` counts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
LIST = """
[G-07]
text = "one"
[G-31]
text = "a table"
rows = ["first", "second"]
"""
# Each test notes that it ran, outside of the folders that are fingerprinted.
ONE = """
import pathlib, pytest
ROOT = pathlib.Path(__file__).resolve().parents[2]
@pytest.mark.req("G-07")
@pytest.mark.slow
def test_slow():
    with (ROOT / "ran").open("a") as ran: ran.write("one\\n")
@pytest.mark.req("G-31", "first")
def test_short(): pass
"""
TWO = """
import pathlib, pytest
ROOT = pathlib.Path(__file__).resolve().parents[2]
@pytest.mark.req("G-31", "second")
def test_two():
    with (ROOT / "ran").open("a") as ran: ran.write("two\\n")
    if (ROOT / "hang").exists():  # a named pipe: opening it lets the other side go on
        (ROOT / "hang").open("w").close()
        (ROOT / "hang").open("w").close()
    assert not (ROOT / "broken").exists()
"""
THREE = "def test_three(): pass\n"


@dataclass(frozen=True, slots=True)
class Project:
    """A project with two rooms and a file that stands in none."""

    root: Path

    def command(self, module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", module, *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": "tests", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run(self, *arguments: str, module: str = "promises.whole_run") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(module, *arguments),
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def ran(self) -> list[str]:
        """The rooms whose noting test has run since the last look."""
        journal = self.root / "ran"
        rooms = journal.read_text().split() if journal.exists() else []
        journal.unlink(missing_ok=True)
        return rooms

    def memory(self) -> dict[str, Any]:
        return json.loads((self.root / ".run" / "last-test.json").read_text())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    shutil.copytree(TESTS / "promises", tmp_path / "tests" / "promises", ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in {"one/test_one.py": ONE, "two/test_two.py": TWO, "test_three.py": THREE}.items():
        (tmp_path / "tests" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "tests" / path).write_text(text, encoding="utf-8")
    (tmp_path / "tests" / "requirements.toml").write_text(LIST, encoding="utf-8")
    (tmp_path / "tests" / "conftest.py").write_text('pytest_plugins = ["promises.plugin"]\n', encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        """
        [tool.pytest.ini_options]
        testpaths = ["tests"]
        addopts = "--import-mode=importlib"
        markers = ["req(id, row=None): x", "slow: x"]
        """,
        encoding="utf-8",
    )
    return Project(tmp_path)


def test_each_room_is_a_run_of_its_own_and_requirements_counts_what_they_proved(project: Project) -> None:
    before = project.run(module="promises").stdout
    whole = project.run("--all", "-q")
    after = project.run("--tests", module="promises").stdout

    assert "The slow set (./run test --all) has not run here." in before
    assert before.endswith("0 of 2 promises proven; 2 more would be, if the tests that never ran passed\n")
    assert whole.returncode == 0
    assert [line for line in whole.stdout.splitlines() if line.startswith("== ")] == [
        "== one",
        "== test_three.py",
        "== two",
    ]
    assert "3 of 3 rooms passed" in whole.stdout
    assert sorted(project.memory()["outcomes"].values()) == ["passed"] * 4
    assert f"The slow set (./run test --all) last ran {project.memory()['whole_set']['at']}: passed." in after
    assert "first: tests/one/test_one.py::test_short" in after
    assert after.endswith("2 of 2 promises proven; 0 more would be, if the tests that never ran passed\n")


def test_a_run_that_was_killed_goes_on_with_the_room_that_it_was_in(project: Project) -> None:
    os.mkfifo(project.root / "hang")
    first = subprocess.Popen(
        project.command("promises.whole_run", "--all", "-q"),
        cwd=project.root,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    (project.root / "hang").open().close()  # until the second room is being run
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    (project.root / "hang").unlink()
    killed = project.ran()

    second = project.run("--all", "-q")

    assert killed == ["one", "two"]
    assert project.ran() == ["two"]
    assert second.returncode == 0
    assert "== one: passed before" in second.stdout and "3 of 3 rooms passed" in second.stdout
    assert project.memory()["whole_set"]["passed"] is True


def test_a_red_room_is_run_again_and_the_green_ones_are_not(project: Project) -> None:
    (project.root / "broken").touch()
    red = project.run("--all", "-q")
    failed = project.memory()["whole_set"]
    (project.root / "broken").unlink()
    project.ran()

    green = project.run("--all", "-q")

    assert (red.returncode, failed["passed"]) == (1, False)
    assert "2 of 3 rooms passed" in red.stdout and "failed: two;" in red.stdout
    assert (green.returncode, project.memory()["whole_set"]["passed"]) == (0, True)
    assert project.ran() == ["two"]


def test_one_room_is_chosen_by_name_and_the_whole_set_is_on_record_with_the_last_of_them(project: Project) -> None:
    one = project.run("--all", "--room", "one", "-q")
    after_one = project.memory()["whole_set"]
    unknown = project.run("--all", "--room", "four", "-q")
    rest = project.run("--all", "--room", "two", "--room", "test_three.py", "-q")

    assert (one.returncode, after_one) == (0, None)
    assert "1 of 3 rooms passed" in one.stdout
    assert unknown.returncode == 2 and "no such room: four" in unknown.stderr
    assert rest.returncode == 0
    assert project.memory()["whole_set"]["passed"] is True
    assert project.ran() == ["one", "two"]


@pytest.mark.parametrize("how", [pytest.param("fresh", marks=pytest.mark.slow), "changed"])
def test_every_room_runs_again_when_asked_for_and_when_a_file_changed(project: Project, how: str) -> None:
    project.run("--all", "-q")
    assert project.ran() == ["one", "two"]
    assert project.run("--all", "-q").returncode == 0
    assert project.ran() == []
    if how == "changed":
        (project.root / "src").mkdir()
        (project.root / "src" / "program.py").write_text("A = 1\n", encoding="utf-8")

    project.run("--all", "-q", *(["--fresh"] if how == "fresh" else []))

    assert project.ran() == ["one", "two"]


def test_a_changed_test_lets_its_room_run_again_and_what_stands_in_no_room(project: Project) -> None:
    project.run("--all", "-q")
    project.ran()
    (project.root / "tests" / "two" / "test_two.py").write_text(f"{TWO}# changed\n", encoding="utf-8")

    again = project.run("--all", "-q")

    assert project.ran() == ["two"]
    assert [line for line in again.stdout.splitlines() if line.startswith("== ") and "before" not in line] == [
        "== test_three.py",
        "== two",
    ]


@pytest.mark.parametrize("narrowed", [["-k", "short"], ["-mslow"], ["tests/one"], ["--deselect=tests/two"]])
def test_a_run_that_is_narrowed_down_counts_for_no_room(project: Project, narrowed: list[str]) -> None:
    assert project.run("--all", "-q", *narrowed).returncode == 0

    assert not (project.root / ".run" / "whole-run.json").exists()
    assert project.memory()["whole_set"] is None
