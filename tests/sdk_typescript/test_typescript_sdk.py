"""The TypeScript SDK is built from its source, passes its own tests, and what is committed is what the build makes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.sdk_typescript.node import BUILT_SDK, EXAMPLE, ROOT, SDK, needs_node

PATIENCE = 240  # seconds; a bound on a hang, never on a speed
MEND = "run in sdk/typescript: npm ci && npm run build && npm run example"


def npm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["npm", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    """A copy of the sources, without anything that was built, and with the compiler that the lock file names."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    built = shutil.ignore_patterns("node_modules", "build", "dist", "*.js", "*.d.ts")
    for source in (SDK, EXAMPLE):
        shutil.copytree(source, tmp_path / source.relative_to(ROOT), ignore=built)
    fetched = npm(tmp_path / SDK.relative_to(ROOT), "ci", "--ignore-scripts", "--prefer-offline", "--no-audit")
    if fetched.returncode:
        pytest.skip(f"npm cannot get the compiler: {fetched.stderr.strip()[-300:]}")
    return tmp_path


def texts(folder: Path, pattern: str) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.glob(pattern) if path.is_file()}


# In one test: every build takes seconds, and each test may run in a worker of its own.
@needs_node
@pytest.mark.slow
def test_what_is_committed_is_what_the_source_makes_and_it_passes_its_own_tests(workshop: Path) -> None:
    sdk, example = (workshop / source.relative_to(ROOT) for source in (SDK, EXAMPLE))
    for task in ("build", "example", "test"):
        done = npm(sdk, "run", task)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]

    made = texts(sdk / "dist", "**/*")
    assert {"index.js", "testing.d.ts"} <= set(made)
    assert texts(BUILT_SDK, "**/*") == made, MEND
    assert set(texts(example, "*.js")) == {"main.js", "dice.js", "schemas.js"}
    assert texts(EXAMPLE, "*.js") == texts(example, "*.js"), MEND


def test_the_built_sdk_is_of_the_source_as_it_is() -> None:
    source = hashlib.sha256()
    for path, text in sorted(texts(SDK, "src/**/*.ts").items()):
        source.update(f"{path}\n{text}".encode())
    built = texts(BUILT_SDK, "**/*")

    assert set(built) == {f"{name}.{kind}" for name in ("index", "testing", "shared") for kind in ("js", "d.ts")}
    assert all(source.hexdigest() in text.partition("\n")[0] for text in built.values()), MEND


def test_the_sdk_needs_nothing_at_run_time_and_its_tools_are_pinned_by_hash() -> None:
    package = json.loads((SDK / "package.json").read_text())
    lock = json.loads((SDK / "package-lock.json").read_text())
    locked = [entry for name, entry in lock["packages"].items() if name]

    assert "dependencies" not in package
    assert all(version[0].isdigit() for version in package["devDependencies"].values())
    assert locked and all(entry["dev"] and entry["integrity"].startswith("sha512-") for entry in locked)
    assert not any("resolved" in entry for entry in locked), "a lock that names one server works with no other"


def test_the_built_sdk_imports_nothing_but_its_own_files_and_nodes_modules() -> None:
    built = texts(BUILT_SDK, "**/*.js").values()
    imported = {
        name for text in built for name in re.findall(r"^[^*\n]*\bfrom ['\"]([^'\"]+)['\"];$", text, re.MULTILINE)
    }
    assert imported and all(name.startswith(("./", "../", "node:")) for name in imported), imported


def test_the_page_about_the_sdk_shows_code_that_is_run() -> None:
    tests = "".join(texts(SDK / "tests", "*.ts").values())
    run = "".join(texts(EXAMPLE / "src", "*.ts").values()) + re.sub(r"^  ", "", tests, flags=re.MULTILINE)
    shown = re.findall(r"```ts\n(.*?)```", (SDK / "README.md").read_text(), re.DOTALL)
    assert shown and all(block in run for block in shown), [block for block in shown if block not in run]
