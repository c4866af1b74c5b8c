"""`./run requirements`: the table of promises and the tests that prove them.

It collects the tests, slow set included, without running them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

from promises.catalogue import Catalogue, read_catalogue
from promises.claims import ClaimsCollector, ClaimsFile
from promises.coverage import Claim, Standing, standings
from promises.memory import Memory, Recollection

ROOT = Path(__file__).resolve().parents[2]


def collect(catalogue: Catalogue) -> list[Claim]:
    """Every claim in the test suite: as the last run of all tests left them, where no test file has changed since.

    Raises:
        SystemExit: the tests cannot be collected, with what pytest said.
    """
    kept = ClaimsFile(ROOT)
    if (known := kept.read()) is not None:
        return known
    fingerprint = kept.fingerprint()
    claims = ClaimsCollector(catalogue, keep_in=None)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = pytest.main(
            ["--collect-only", "-q", "--all", "-p", "no:cacheprovider", f"--rootdir={ROOT}", str(ROOT / "tests")],
            plugins=[claims],
        )
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.stderr.write(said.getvalue())
        raise SystemExit(1)
    kept.write(claims.found, fingerprint)
    return claims.found


def table(all_standings: list[Standing], memory: Recollection, *, with_tests: bool) -> str:
    """The report for a person."""
    lines: list[str] = []
    for standing in all_standings:
        lines.append(f"{_sign(standing)} {standing.promise.id}  {_count(standing):>9}  {standing.promise.text}")
        if standing.missing_rows and (standing.tests or standing.never_run):
            lines.append(f"{'':18}rows without a test: {', '.join(standing.missing_rows)}")
        lines += [f"{'':18}not passing: {test}" for test in standing.failing]
        if standing.never_run:
            lines.append(f"{'':18}never run here: {_tests(len(standing.never_run))}")
        if with_tests:
            lines += [
                f"{'':18}{f'{row}: ' if row else ''}{test}"
                for row, tests in standing.tests_of_rows.items()
                for test in tests
            ]
            lines += [f"{'':18}never run: {test}" for test in standing.never_run]
    proven = sum(standing.proven for standing in all_standings)
    unseen = sum(standing.complete and not standing.proven for standing in all_standings)
    lines += [
        "",
        "+ A promise is proven when tests for all of it exist and every one passed when it last ran here.",
        "? Tests for all of it exist, and some of them have never run here.",
        "~ There are tests, but not for all of it, or some failed or were skipped.",
        _whole_set(memory),
        f"{proven} of {len(all_standings)} promises proven; {unseen} more would be, if the tests that never ran passed",
    ]
    return "\n".join(lines)


def document(all_standings: list[Standing], memory: Recollection) -> str:
    """The report for a program."""
    promises = [
        {
            "id": standing.promise.id,
            "text": standing.promise.text,
            "proven": standing.proven,
            "tests": standing.tests,
            "not_passing": standing.failing,
            "never_run": standing.never_run,
            "rows": len(standing.promise.rows),
            "rows_proven": standing.rows_proven,
            "missing_rows": standing.missing_rows,
            "unseen_rows": standing.unseen_rows,
        }
        for standing in all_standings
    ]
    summary = {
        "promises": promises,
        "proven": sum(standing.proven for standing in all_standings),
        "total": len(all_standings),
        "whole_set": {"at": memory.whole_set_at, "passed": memory.whole_set_passed},
    }
    return json.dumps(summary, indent=2)


def _sign(standing: Standing) -> str:
    if standing.complete:
        return "+" if standing.proven else "?"
    return "~" if standing.tests or standing.failing or standing.never_run else " "


def _count(standing: Standing) -> str:
    if standing.promise.rows:
        return f"{standing.rows_proven}/{len(standing.promise.rows)} rows"
    return _tests(len(standing.tests)) if standing.tests else "-"


def _tests(number: int) -> str:
    return f"{number} test{'' if number == 1 else 's'}"


def _whole_set(memory: Recollection) -> str:
    if memory.whole_set_at is None:
        return "The slow set (./run test --all) has not run here."
    return f"The slow set (./run test --all) last ran {memory.whole_set_at}: {_passed(memory)}."


def _passed(memory: Recollection) -> str:
    return "passed" if memory.whole_set_passed else "failed"


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run requirements", description="Which tests prove which promise.")
    parser.add_argument("--json", action="store_true", help="one document on stdout")
    parser.add_argument("--tests", action="store_true", help="name the tests of each promise")
    arguments = parser.parse_args()
    catalogue = read_catalogue(ROOT / "tests" / "requirements.toml")
    memory = Memory(ROOT / ".run" / "last-test.json").recall()
    found = standings(catalogue, collect(catalogue), memory.outcomes)
    report = document(found, memory) if arguments.json else table(found, memory, with_tests=arguments.tests)
    sys.stdout.write(report + "\n")


if __name__ == "__main__":
    main()
