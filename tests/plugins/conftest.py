"""Places and repositories that the tests of this room share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.shelves import Shelf


@pytest.fixture
def shelf(tmp_path: Path, database_address: str) -> Iterator[Shelf]:
    """An open plugin store, on each engine in turn."""
    with Shelf.open(tmp_path, database_address) as opened:
        yield opened


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A small honest plugin in a directory."""
    root = tmp_path / "plugin"
    (root / "code").mkdir(parents=True)
    (root / "paddock.yaml").write_text("name: example\n")
    (root / "code" / "main.py").write_text("print('hello')\n")
    (root / "code" / "run.sh").write_text("#!/bin/sh\n")
    (root / "code" / "run.sh").chmod(0o755)
    return root


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Runs git in a directory as an author without any configuration of their own."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }

    def run(directory: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "init.defaultBranch=main", *arguments],
            cwd=directory,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    return run
