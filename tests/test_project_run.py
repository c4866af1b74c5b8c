"""`./run` and what it installs from: it lists its tasks, refuses others, and its locks are whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "run"
LOCKS = [ROOT / "requirements.lock", ROOT / "requirements-dev.lock"]
TASKS = ["demo", "test", "check", "bench", "requirements", "mutants", "docs", "paddock", "lock"]


def run(*arguments: str, checkout: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Type `./run …` with nothing in the environment but what a fresh machine has."""
    base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ["HOME"], "PADDOCK_RUN_NO_APT": "1"}
    return subprocess.run(
        [str(checkout / "run"), *arguments],
        env=base | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_run_alone_lists_every_task() -> None:
    done = run()

    assert done.returncode == 0
    assert re.findall(r"^  (\w+) +\S", done.stdout, flags=re.MULTILINE) == TASKS


def test_a_task_that_does_not_exist_is_a_usage_error_that_shows_the_tasks() -> None:
    done = run("dance")

    assert done.returncode == 2
    assert "there is no task 'dance'" in done.stderr
    assert "requirements" in done.stderr
    assert done.stdout == ""


def test_run_is_a_script_for_any_posix_shell() -> None:
    assert RUN.read_text(encoding="utf-8").startswith("#!/bin/sh\n")
    assert subprocess.run(["/bin/sh", "-n", RUN], check=False).returncode == 0
    assert re.search(r"\[\[|\bfunction\b|\blocal\b|\bpipefail\b|<\(", RUN.read_text(encoding="utf-8")) is None


def test_continuous_integration_is_check_and_test() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert re.findall(r"^\./run (\w+)", script, flags=re.MULTILINE) == ["check", "test"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_of_a_lock_has_hashes_and_no_lock_names_a_registry(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\w)", "\n" + text)[1:]

    assert entries
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text
    assert not re.search(r"^-", text, flags=re.MULTILINE)


def test_the_locks_hold_every_direct_dependency_and_agree_with_each_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime, dev = (pins(lock) for lock in LOCKS)

    assert names(project["project"]["dependencies"]) <= runtime.keys()
    assert names(project["dependency-groups"]["dev"]) <= dev.keys()
    assert runtime.items() <= dev.items()


def pins(lock: Path) -> dict[str, str]:
    """Version by name; a package with several markers keeps the last."""
    return dict(re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=~! ;]", requirement)[0].lower() for requirement in requirements}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what `./run` needs, in a folder with a space in its name, not set up yet."""
    folder = tmp_path / "a checkout"
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [RUN, *LOCKS]:
        shutil.copy2(path, folder)
    return folder


@pytest.mark.registry
def test_two_first_starts_at_once_share_one_set_up_and_both_work(checkout: Path) -> None:
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda _: run("paddock", "--help", checkout=checkout), range(2)))

    assert [done.returncode for done in both] == [0, 0], both
    assert sum("setting up Python packages" in done.stderr for done in both) == 1


@pytest.mark.registry
def test_an_interrupted_set_up_heals_and_a_finished_one_is_left_alone(checkout: Path) -> None:
    assert run("paddock", "--help", checkout=checkout).returncode == 0
    # As a kill in the middle of an installer leaves it: a package that says it is there and is not.
    (package,) = checkout.glob(".venv/lib/python3*/site-packages/click")
    shutil.rmtree(package)
    (checkout / ".run" / "setup-unfinished").touch()
    next(checkout.glob(".venv/.paddock-runtime")).unlink()

    healed = run("paddock", "--help", checkout=checkout)
    again = run("paddock", "--help", checkout=checkout)

    assert healed.returncode == again.returncode == 0, healed
    assert "setting up Python packages" in healed.stderr
    assert "setting up Python" not in again.stderr


@pytest.mark.registry
def test_a_checkout_that_moved_gets_an_environment_for_its_new_place(checkout: Path) -> None:
    assert run("paddock", "--help", checkout=checkout).returncode == 0
    moved = checkout.rename(checkout.parent / "elsewhere")

    done = run("paddock", "--help", checkout=moved)

    assert done.returncode == 0, done
    assert str(moved) in (moved / ".venv" / "bin" / "paddock").read_text(encoding="utf-8")


@pytest.mark.registry
def test_a_package_that_is_not_what_the_lock_says_is_refused_with_the_end_of_the_log(checkout: Path) -> None:
    lock = checkout / "requirements.lock"
    lock.write_text(re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", lock.read_text()), encoding="utf-8")

    done = run("paddock", "--help", checkout=checkout)

    assert done.returncode == 1
    assert "setting up Python packages did not work" in done.stderr
    assert re.search(r"hash", done.stderr, flags=re.IGNORECASE)
    assert not (checkout / ".run" / "setup-unfinished").exists()


def test_a_machine_without_a_new_enough_python_is_told_what_to_type(checkout: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    needed = ["sh", "cat", "cksum", "date", "dirname", "flock", "id", "mkdir", "readlink", "rm", "tail", "git"]
    for program in needed:
        (programs / program).symlink_to(shutil.which(program) or pytest.fail(f"{program} is missing here"))
    old = programs / "python3"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)

    done = run("paddock", checkout=checkout, PATH=str(programs))

    assert done.returncode == 1
    assert "needs Python 3.11 or newer. Type: sudo apt-get install python3" in done.stderr
