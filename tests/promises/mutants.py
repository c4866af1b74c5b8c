"""`./run mutants`: whether the tests notice when a promise of the security core is broken.

`tests/mutants.toml` lists small faults that a person could make. Each is put into a copy of src/, and the tests that it
names are run against that copy: at least one of them has to fail. Tests that cannot be collected do not count, since a
fault that breaks the import of a module proves nothing about them; nor do tests that fail without any fault, so all of
them are run against src/ as it is first.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "tests" / "mutants.toml"
_TIMEOUT_S = 600  # for the tests of one mutant, on a busy machine

Verdict: TypeAlias = Literal["killed", "SURVIVED", "text not found", "not collected", "timed out"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A small fault, and the tests that have to notice it."""

    name: str
    about: str  # which promise it breaks
    file: str  # below src/
    old: str  # stands in the file exactly once
    new: str
    tests: tuple[str, ...]  # files or node ids below tests/

    def occurrences(self, src: Path) -> int:
        """How often the text to change stands in the file; 0 where there is no such file."""
        path = src / self.file
        return path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0

    def missing_tests(self, tests: Path) -> list[str]:
        """The node ids whose file does not exist or has no function of that name."""
        return [test for test in self.tests if not _is_defined(tests, test)]


@dataclass(frozen=True, slots=True)
class Trial:
    """How the tests fared against one mutant, and what pytest printed."""

    mutant: Mutant
    verdict: Verdict
    output: str = ""


def read_mutants(path: Path = CATALOGUE) -> list[Mutant]:
    """Every mutant of the list.

    Raises:
        ValueError: two of them have the same name.
    """
    tables: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    mutants = [Mutant(tests=tuple(table.pop("tests")), **table) for table in tables]
    if len({mutant.name for mutant in mutants}) < len(mutants):
        raise ValueError(f"{path} has two mutants of the same name")
    return mutants


def try_mutant(mutant: Mutant, root: Path = ROOT) -> Trial:
    """Run the tests of a mutant against a copy of src/ that has it."""
    if mutant.occurrences(root / "src") != 1:
        return Trial(mutant, "text not found")
    with _folder() as folder:
        src = _mutated_copy(mutant, root / "src", folder / "src")
        try:
            code, output = _run_tests(mutant.tests, src, folder / "t", root, _TIMEOUT_S)
        except subprocess.TimeoutExpired as late:
            return Trial(mutant, "timed out", late.stdout.decode() if isinstance(late.stdout, bytes) else "")
    return Trial(mutant, _verdict(code), output)


def failures_without_mutants(mutants: Iterable[Mutant], root: Path = ROOT) -> str:
    """Run the tests of all of them against src/ as it is; gives what pytest printed where they do not all pass."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    with _folder() as folder:
        code, output = _run_tests(tests, root / "src", folder / "t", root, None)
    return "" if code == pytest.ExitCode.OK else output


def try_all(mutants: Iterable[Mutant], jobs: int) -> Iterator[Trial]:
    """Try mutants, several at a time, in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(try_mutant, mutants)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./run mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many to try at a time")
    parser.add_argument("--verbose", action="store_true", help="show what pytest printed of each")
    options = parser.parse_args(arguments)
    mutants = read_mutants()
    if unknown := set(options.names) - {mutant.name for mutant in mutants}:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:<40} {mutant.file}\n    {mutant.about}")  # noqa: T201
        return 0
    if failures := failures_without_mutants(chosen):
        print(f"{failures}\nthe tests fail without a mutant", flush=True)  # noqa: T201
        return 1
    left = 0
    for trial in try_all(chosen, options.jobs):
        print(f"{trial.verdict:<15} {trial.mutant.name}", flush=True)  # noqa: T201
        killed = trial.verdict == "killed"
        left += not killed
        if options.verbose or not killed:
            print(f"    {trial.mutant.about}\n{trial.output}", flush=True)  # noqa: T201
    print(f"{len(chosen) - left} of {len(chosen)} mutants killed", flush=True)  # noqa: T201
    return 1 if left else 0


def _is_defined(tests: Path, node: str) -> bool:
    file, _, inside = node.partition("::")
    path = tests / file
    if not path.is_file():
        return False
    function = inside.partition("[")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = (one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return not inside or function in defined


def _mutated_copy(mutant: Mutant, src: Path, copy: Path) -> Path:
    # With its bytecode, which stays good for what is not changed. No links: a cage shows nothing beyond the folder.
    shutil.copytree(src, copy)
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8").replace(mutant.old, mutant.new)
    Path(cache_from_source(path)).unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
    return copy


@contextmanager
def _folder() -> Generator[Path, None, None]:
    # A short path: tests put sockets below it.
    with tempfile.TemporaryDirectory(prefix="mut-") as folder:
        # Cages run as nobody, and have to get at the sources.
        Path(folder).chmod(0o755)
        yield Path(folder)


def _run_tests(
    tests: Iterable[str], src: Path, temporary: Path, root: Path, timeout_s: float | None
) -> tuple[int, str]:
    """The exit code of pytest with these sources, and what it printed.

    Raises:
        TimeoutExpired: they took too long.
    """
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-x", "--all"),
        *("-o", f"pythonpath={src} tests ."),
        *("-p", "no:cacheprovider", "-p", "no:xdist"),
        *("-p", "no:paddock-last-run"),  # failures that are wanted are not what the last run found
        *("--basetemp", str(temporary)),
        *(f"tests/{test}" for test in tests),
    ]
    done = subprocess.run(
        command,
        cwd=root,
        env=os.environ | {"CI": "1", "PYTHONPATH": str(src)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return done.returncode, done.stdout


def _verdict(code: int) -> Verdict:
    match code:
        case pytest.ExitCode.OK:
            return "SURVIVED"
        case pytest.ExitCode.TESTS_FAILED:
            return "killed"
        case _:
            return "not collected"


if __name__ == "__main__":
    sys.exit(main())
