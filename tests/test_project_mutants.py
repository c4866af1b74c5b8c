"""The list of mutants: it fits the sources, its runner tells a fault that is noticed from one that is not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fixtures.all_cases import all_cases
from promises.mutants import Mutant, failures_without_mutants, main, read_mutants, try_mutant

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = read_mutants()


@all_cases("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_a_text_that_stands_once_in_the_sources_and_names_tests_that_exist(mutant: Mutant):
    assert mutant.occurrences(ROOT / "src") == 1, f"{mutant.file} has it not once: {mutant.old}"
    assert mutant.new != mutant.old
    assert mutant.tests
    assert not mutant.missing_tests(ROOT / "tests")


@pytest.mark.slow  # like the runs of the list itself: each verdict is a run of pytest
def test_the_runner_tells_killed_from_survived_and_from_what_proves_nothing(tmp_path: Path):
    """A project of one function: a fault its test sees, one it does not, and one that no test can be collected with."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "doors.py").write_text("def locked():\n    return True\n\n\nCOLOUR = 'red'\n", encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_doors.py").write_text(
        "from doors import locked\n\n\ndef test_it_is_locked():\n    assert locked()\n", encoding="utf-8"
    )
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = ""\n', encoding="utf-8")
    (tmp_path / "conftest.py").write_text(
        'def pytest_addoption(parser):\n    parser.addoption("--all", action="store_true")\n', encoding="utf-8"
    )
    unlocked = Mutant("unlocked", "-", "doors.py", "True", "False", ("test_doors.py::test_it_is_locked",))

    def verdict(**changes: str) -> str:
        return try_mutant(dataclasses.replace(unlocked, **changes), tmp_path).verdict

    assert verdict() == "killed"
    assert verdict(old="'red'", new="'blue'") == "SURVIVED"
    assert verdict(old="def locked", new="def lockd") == "not collected"
    assert verdict(old="False") == "text not found"
    assert failures_without_mutants([unlocked], tmp_path) == ""
    (tmp_path / "src" / "doors.py").write_text("def locked():\n    return None\n", encoding="utf-8")
    assert "1 failed" in failures_without_mutants([unlocked], tmp_path)
    assert dataclasses.replace(unlocked, tests=("test_doors.py::test_gone", "test_none.py")).missing_tests(
        tmp_path / "tests"
    )


@pytest.mark.slow
def test_every_mutant_of_the_security_core_is_killed():
    assert main([]) == 0
