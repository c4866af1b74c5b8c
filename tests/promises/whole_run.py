"""`./run test --all`: every test there is, one room after another, and from where it was left.

Each room (a folder of tests/, or a file that stands in none) is a run of pytest of its own, so that a run that was
interrupted, or had one red room, goes on instead of beginning again. That a room passed is kept in
`.run/whole-run.json` for as long as no file changes but the tests of other rooms; `--fresh` forgets it. The whole set
is on record as passed once every room has, and as failed once every room has run and one of them failed. A run that is
narrowed down (`-k`, `-m`, a path, …) is an ordinary run of pytest and counts for no room.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from promises.memory import Memory

ROOT = Path(__file__).resolve().parents[2]
_NOTHING_COLLECTED = 5  # pytest's exit code where a room has no test
_FOLDERS = ("src", "tests", "examples", "sdk", "docs", "bench")
_FILES = ("pyproject.toml", "requirements.lock", "requirements-dev.lock", "run", "README.md")
_NARROWING = {
    "--deselect", "--ignore", "--ignore-glob", "--lf", "--last-failed", "--sw", "--stepwise", "--co", "--collect-only",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Progress:
    """Which rooms have passed on the files as they are now, with their seconds."""

    path: Path
    fingerprints: dict[str, str]  # by room

    def read(self) -> dict[str, float]:
        try:
            kept: Any = json.loads(self.path.read_text(encoding="utf-8"))
            return {room: seconds for room, (mark, seconds) in kept.items() if self.fingerprints.get(room) == mark}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def write(self, passed: dict[str, float]) -> None:
        self.path.parent.mkdir(exist_ok=True)
        kept = {room: (self.fingerprints[room], seconds) for room, seconds in passed.items()}
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        scratch.replace(self.path)


def rooms(tests: Path) -> list[str]:
    """The folders and files below tests/ that hold tests."""
    folders = [path for path in tests.iterdir() if path.is_dir() and any(path.rglob("test_*.py"))]
    return sorted(path.name for path in (*folders, *tests.glob("test_*.py")))


def fingerprints(root: Path, every: list[str]) -> dict[str, str]:
    """By room; changes whenever a file of the program or of the tests does, but for the tests of another room.

    A file that stands in no room looks at the whole project, the tests of every room among it.
    """
    below = [path for folder in _FOLDERS for path in sorted((root / folder).rglob("*"))]
    digests = {
        path.relative_to(root).parts: sha256(path.read_bytes()).hexdigest()
        for path in (*below, *(root / name for name in _FILES))
        if path.is_file() and "__pycache__" not in path.parts and "node_modules" not in path.parts
    }
    return {room: _fingerprint(room, digests) for room in every}


def _fingerprint(room: str, digests: dict[tuple[str, ...], str]) -> str:
    digest = sha256()
    for parts, file_digest in digests.items():
        elsewhere = parts[0] == "tests" and len(parts) > 2 and parts[1] != room and parts[-1].startswith("test_")
        if room.endswith(".py") or not elsewhere:
            digest.update(f"{'/'.join(parts)} {file_digest}\n".encode())
    return digest.hexdigest()


def _narrows(option: str) -> bool:
    """True for what makes pytest run fewer tests than a room has."""
    return option.startswith(("-k", "-m", "tests/")) or option.partition("=")[0] in _NARROWING


def _pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run test --all", description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="forget which rooms have passed already")
    parser.add_argument("--room", action="append", default=[], help="only this room; may be given again")
    arguments, options = parser.parse_known_args()
    if any(_narrows(option) for option in options):
        return _pytest(options)
    every = rooms(ROOT / "tests")
    progress = Progress(ROOT / ".run" / "whole-run.json", fingerprints(ROOT, every))
    if unknown := set(arguments.room) - set(every):
        parser.error(f"no such room: {', '.join(sorted(unknown))}")
    passed = {} if arguments.fresh else progress.read()
    failed: list[str] = []
    for room in arguments.room or every:
        if room in passed:
            print(f"== {room}: passed before, in {passed[room]:.0f} s", flush=True)  # noqa: T201
            continue
        print(f"== {room}", flush=True)  # noqa: T201
        began = time.monotonic()
        code = _pytest([*options, f"tests/{room}"])
        if code in (0, _NOTHING_COLLECTED):
            passed[room] = round(time.monotonic() - began, 1)
            progress.write(passed)
        else:
            failed.append(room)
    seconds = sum(passed.values())
    print(f"{len(passed)} of {len(every)} rooms passed in {seconds:.0f} s", flush=True)  # noqa: T201
    if failed:
        print(f"failed: {', '.join(failed)}; `./run test --all` goes on with these", flush=True)  # noqa: T201
    if set(passed) | set(failed) == set(every):
        Memory(ROOT / ".run" / "last-test.json").remember_whole_set(passed=not failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
