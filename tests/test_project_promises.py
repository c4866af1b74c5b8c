"""The promise plugin: marks must be true to the list, the slow set waits, and outcomes are remembered."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from promises.__main__ import table
from promises.catalogue import Catalogue, Promise, read_catalogue
from promises.coverage import Claim, standings
from promises.memory import Recollection

TESTS = Path(__file__).resolve().parent
LIST = """
[G-07]
text = "one"
[G-31]
text = "a table"
rows = ["oversize message", "name mismatch"]
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with the plugin, a list of two promises, and no tests yet."""
    folder = pytester.mkdir("tests")
    (folder / "requirements.toml").write_text(LIST, encoding="utf-8")
    pytester.makepyprojecttoml(
        f"""
        [tool.pytest.ini_options]
        testpaths = ["tests"]
        pythonpath = ["{TESTS}"]
        markers = ["req(id, row=None): x", "slow: x", "registry: x", "soak: x", "n8n: x"]
        """
    )
    (folder / "conftest.py").write_text('pytest_plugins = ["promises.plugin"]\n', encoding="utf-8")
    return pytester


def run(project: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    """Run a test file with the plugin; in this process, unless workers are asked for."""
    path = project.path / "tests" / "test_it.py"
    path.write_text("import pytest\n" + source, encoding="utf-8")
    if "-n" in arguments:
        return project.run(sys.executable, "-m", "pytest", *arguments)
    # The plugin is imported already, being in use for this very test.
    return project.runpytest_inprocess("-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments)


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ('"G-99"', "*'G-99' is not an id of tests/requirements.toml*"),
        ('"G-31", "oversized"', "*'oversized' is not a row of G-31; its rows are: oversize message, name mismatch*"),
        ('"G-07", "anything"', "*G-07 has no rows in tests/requirements.toml, so 'anything' cannot be one*"),
        ('"G-31"', "*G-31 is proven row by row; its rows are: oversize message, name mismatch*"),
        ("", '*write req("ID") or req("ID", "row")*'),
    ],
)
def test_a_mark_that_the_list_does_not_have_stops_the_run_before_any_test(
    project: pytest.Pytester, mark: str, reason: str
) -> None:
    result = run(project, f"@pytest.mark.req({mark})\ndef test_wrong(): pass\ndef test_right(): pass\n")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*a test names a promise that does not exist*", reason])
    result.assert_outcomes(errors=1)


def test_a_wrong_mark_stops_a_parallel_run_just_as_clearly(project: pytest.Pytester) -> None:
    source = '@pytest.mark.req("G-99")\ndef test_wrong(): pass\ndef test_right(): pass\n'

    result = run(project, source, "-n", "1")

    assert result.ret != 0
    result.stdout.fnmatch_lines(["*a test names a promise that does not exist*", "*'G-99' is not an id*"])
    result.assert_outcomes(errors=1)


def test_rows_are_the_same_in_upper_and_lower_case(project: pytest.Pytester) -> None:
    result = run(project, '@pytest.mark.req("G-31", "Oversize Message")\ndef test_it(): pass\n')

    result.assert_outcomes(passed=1)


def test_the_slow_set_runs_only_when_asked_for(project: pytest.Pytester) -> None:
    marks = ("slow", "registry", "soak", "n8n")
    source = "".join(f"@pytest.mark.{mark}\ndef test_{mark}(): pass\n" for mark in marks) + "def test_short(): pass\n"

    run(project, source).assert_outcomes(passed=1, deselected=4)
    run(project, source, "--all").assert_outcomes(passed=5)
    run(project, source, "-m", "soak").assert_outcomes(passed=1, deselected=4)
    run(project, source, "tests/test_it.py::test_n8n").assert_outcomes(passed=1)


def test_outcomes_of_a_run_are_remembered_and_a_later_partial_run_changes_only_its_own(
    project: pytest.Pytester,
) -> None:
    source = "def test_a(): assert {}\ndef test_b(): pass\ndef test_c(): pytest.skip()\n"

    run(project, source.format(False))
    first = json.loads((project.path / ".run" / "last-test.json").read_text())
    run(project, source.format(True), "tests/test_it.py::test_a")
    second = json.loads((project.path / ".run" / "last-test.json").read_text())

    names = {name: f"tests/test_it.py::test_{name}" for name in "abc"}
    assert first["outcomes"] == {names["a"]: "failed", names["b"]: "passed", names["c"]: "skipped"}
    assert second["outcomes"] == first["outcomes"] | {names["a"]: "passed"}
    assert second["whole_set"] is None


def test_only_a_run_of_everything_leaves_the_date_of_the_slow_set(project: pytest.Pytester) -> None:
    run(project, "def test_a(): pass\n", "--all", "-k", "a")
    narrowed = json.loads((project.path / ".run" / "last-test.json").read_text())
    run(project, "def test_a(): pass\n", "--all")
    whole = json.loads((project.path / ".run" / "last-test.json").read_text())

    assert narrowed["whole_set"] is None
    assert whole["whole_set"]["passed"] is True


def test_a_promise_with_rows_is_proven_only_when_every_row_is() -> None:
    catalogue = Catalogue({"G-31": Promise("G-31", "a table", ("one", "two"))})
    one, two = Claim("G-31", "one", "t::one"), Claim("G-31", "two", "t::two")

    passed = {claim.test: "passed" for claim in (one, two)}

    (half,) = standings(catalogue, [one], passed)
    (whole,) = standings(catalogue, [one, two], passed)

    assert (half.proven, half.rows_proven, half.missing_rows) == (False, 1, ("two",))
    assert (whole.proven, whole.missing_rows) == (True, ())


@pytest.mark.parametrize(("outcome", "proven"), [("passed", True), ("failed", False), ("skipped", False)])
def test_a_test_that_did_not_pass_when_it_last_ran_proves_nothing(outcome: str, *, proven: bool) -> None:
    catalogue = Catalogue({"G-07": Promise("G-07", "one")})

    (standing,) = standings(catalogue, [Claim("G-07", None, "t::it")], {"t::it": outcome})

    assert standing.proven is proven


def test_a_test_that_never_ran_proves_nothing_yet_and_is_told_apart() -> None:
    catalogue = Catalogue({"G-31": Promise("G-31", "a table", ("one", "two"))})
    claims = [Claim("G-31", "one", "t::one"), Claim("G-31", "two", "t::two")]

    (standing,) = found = standings(catalogue, claims, {"t::one": "passed"})

    assert (standing.proven, standing.tests, standing.never_run) == (False, ("t::one",), ("t::two",))
    assert (standing.rows_proven, standing.missing_rows, standing.unseen_rows) == (1, (), ("two",))
    told = table(found, Recollection(), with_tests=False)
    assert told.startswith("? G-31") and "never run here: 1 test\n" in told
    assert told.endswith("0 of 1 promises proven; 1 more would be, if the tests that never ran passed")


def test_the_list_of_the_project_is_well_formed() -> None:
    promises = read_catalogue(TESTS / "requirements.toml").promises

    assert [promise.id for promise in promises.values() if promise.text.endswith(".")] == []
    assert len({promise.text for promise in promises.values()}) == len(promises)
