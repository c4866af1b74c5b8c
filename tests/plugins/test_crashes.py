"""A command is killed at every step it takes. Each time the store is as before or as after, and goes on from there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import SOURCE, Paddock
from fixtures.packages import native, write_file, write_json

MOST_STEPS = 400


@dataclass
class Warm:
    """Runs commands in forks of a process that has everything imported."""

    process: subprocess.Popen[str]
    paddock: Paddock
    scratch: Path

    def __call__(self, *arguments: object, fatal: int) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {
            "arguments": [str(argument) for argument in arguments],
            "environment": self.paddock.environment,
            "fatal": fatal,
            "out": str(self.scratch / "out"),
            "err": str(self.scratch / "err"),
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    @property
    def said(self) -> str:
        return (self.scratch / "out").read_text() + (self.scratch / "err").read_text()


@contextmanager
def warm(paddock: Paddock, scratch: Path) -> Iterator[Warm]:
    program = [sys.executable, str(Path(__file__).with_name("warm_commands.py"))]
    path = {"PYTHONPATH": f"{SOURCE}:{Path(__file__).parents[1]}"}
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=paddock.environment | path
    ) as process:
        try:
            yield Warm(process, paddock, scratch)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=30)


@dataclass(frozen=True)
class Seen:
    """What the list says of one plugin."""

    version: str
    versions: int
    state: str
    capabilities: tuple[str, ...]


def seen(paddock: Paddock, name: str) -> Seen | None:
    row = paddock.listed().get(name)
    return Seen(row["version"], len(row["versions"]), row["state"], tuple(row["capabilities"])) if row else None


def assert_tidy(paddock: Paddock, name: str, found: Seen | None) -> None:
    """Nothing is left over: no staging, no tree without a row, no entry that says otherwise than the rows."""
    assert list(paddock.staging.iterdir()) == []
    tree = paddock.trees / name
    on_disk = [path.name for path in tree.iterdir()] if tree.exists() else []
    assert len(on_disk) == (found.versions if found else 0)
    assert tree.exists() == (found is not None)
    below = paddock.home / "data"
    named = {path.parent for path in below.rglob(name)} - {below / "plugins", below / "fingerprints"}
    assert named == set()
    assert found is not None or list(below.rglob(name)) == []
    entries = tomllib.loads(paddock.local.read_text())["plugins"]
    assert entries.get(name, {}).get("installed") == (found.version if found else None)


def die_everywhere(run: Warm, template: Path, command: list[object], name: str, *, every: int = 1) -> int:
    """Kill the command at each of its steps, or at `every` so many; gives how many there were."""
    paddock = run.paddock
    shutil.copytree(template, paddock.home)
    before = seen(paddock, name)
    paddock.quickly(*command)
    after = seen(paddock, name)
    assert after != before
    happened: set[bool] = set()
    for fatal in range(1, MOST_STEPS, every):
        shutil.rmtree(paddock.home)
        shutil.copytree(template, paddock.home)
        done = run(*command, fatal=fatal)
        if not done["killed"]:
            assert done["code"] == 0, run.said
            assert happened == {False, True}, "it died before and after the moment that counts"
            return fatal - 1
        # Looking works at once, and sees the old or the new, whole.
        now = seen(paddock, name)
        assert now in (before, after), f"killed at step {fatal}: {now}"
        happened.add(now == after)
        # It can be enabled or is not there, and the command that does so clears away what was left.
        paddock.quickly("plugin", "enable", name, "--no-start", code=3 if now is None else 0)
        if now is not None and now.state == "disabled":
            paddock.quickly("plugin", "disable", name)
        assert_tidy(paddock, name, now)
        # And what was interrupted can simply be typed again; where it had happened, it says so.
        if now != after:
            paddock.quickly(*command)
        assert seen(paddock, name) == after, f"killed at step {fatal}"
        assert_tidy(paddock, name, after)
    raise AssertionError(f"the command takes more than {MOST_STEPS} steps")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A place for homes. In memory where that can be had: a kill is not a power cut, so nothing needs a real disk."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=parent, prefix="paddock-crash-") as folder:
        yield Path(folder)


@pytest.fixture
def template(place: Path) -> Path:
    """A home with a bystander, closed and ready to be copied."""
    paddock = Paddock(place / "template")
    paddock.quickly("plugin", "install", native(place / "bystander", name="bystander"), "--yes")
    return paddock.home


@pytest.fixture
def run(place: Path) -> Iterator[Warm]:
    with warm(Paddock(place / "home"), place) as commands:
        yield commands


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_an_install_killed_at_any_step_happened_or_did_not(
    run: Warm, template: Path, tmp_path: Path, every: int
) -> None:
    package = native(tmp_path / "notes")
    write_file(package / "lib" / "one.py", "")
    write_file(package / "lib" / "deep" / "two.py", "")

    assert die_everywhere(run, template, ["plugin", "install", package, "--yes"], "notes", every=every) > 20


@pytest.mark.slow
def test_an_upgrade_killed_at_any_step_happened_or_did_not(run: Warm, template: Path, tmp_path: Path) -> None:
    package = native(tmp_path / "notes")
    there = Paddock(template)
    there.quickly("plugin", "install", package, "--yes")
    there.quickly("plugin", "enable", "notes", "--no-start")
    capability = "net:mail.example.com:443"
    native(package, version="1.1.0", capabilities=[capability])
    command = ["plugin", "upgrade", "notes", "--yes", "--grant", capability]

    assert die_everywhere(run, template, [*command], "notes") > 20


@pytest.mark.slow
def test_going_back_killed_at_any_step_happened_or_did_not(run: Warm, template: Path, tmp_path: Path) -> None:
    there = Paddock(template)
    package = native(tmp_path / "notes")
    there.quickly("plugin", "install", package, "--yes")
    native(package, version="1.1.0")
    there.quickly("plugin", "upgrade", "notes", "--yes")
    there.quickly("plugin", "enable", "notes", "--no-start")

    assert die_everywhere(run, template, ["plugin", "rollback", "notes", "--to", "1.0.0", "--yes"], "notes") > 5


@pytest.mark.slow
def test_an_uninstall_killed_at_any_step_happened_or_did_not(run: Warm, template: Path, tmp_path: Path) -> None:
    there = Paddock(template)
    package = native(tmp_path / "notes")
    there.quickly("plugin", "install", package, "--yes")
    native(package, version="1.1.0")
    there.quickly("plugin", "upgrade", "notes", "--yes")
    there.quickly("plugin", "enable", "notes", "--no-start")

    assert die_everywhere(run, template, ["plugin", "remove", "notes", "--yes"], "notes") > 5


REFERENCE = "${secret:plugin/weather/KEY}"


def keys_of_weather(paddock: Paddock) -> tuple[int | None, str | None]:
    """The version of the sealed key, and what stands in its place."""
    sealed = {row["name"]: row["version"] for row in paddock.quickly("secret", "list", "--json").json["secrets"]}
    entries = tomllib.loads(paddock.local.read_text())["plugins"]
    return sealed.get("plugin/weather/KEY"), entries.get("weather", {}).get("KEY")


@pytest.mark.slow
def test_an_import_killed_at_any_step_leaves_no_key_without_its_plugin_and_no_plugin_without_its_key(
    run: Warm, template: Path, tmp_path: Path
) -> None:
    servers = {"mcpServers": {"weather": {"command": "node", "args": ["w.js"], "env": {"KEY": "canary-55aa"}}}}
    file = write_json(tmp_path / "mcp.json", servers)
    paddock = run.paddock
    for fatal in range(1, MOST_STEPS):
        shutil.rmtree(paddock.home, ignore_errors=True)
        shutil.copytree(template, paddock.home)
        done = run("import", file, "--yes", fatal=fatal)
        paddock.quickly("plugin", "enable", "bystander", "--no-start")  # clears away what was left
        installed = seen(paddock, "weather") is not None
        assert keys_of_weather(paddock) == ((1, REFERENCE) if installed else (None, None)), f"killed at step {fatal}"
        # Typed again, the key is there, whichever side of the moment it died on.
        paddock.quickly("import", file, "--yes")
        assert keys_of_weather(paddock) == (1, REFERENCE), f"killed at step {fatal}"
        # And it goes with its plugin.
        if fatal % 10 == 0:
            paddock.quickly("plugin", "remove", "weather", "--yes")
            assert keys_of_weather(paddock) == (None, None)
        if not done["killed"]:
            assert installed
            return
    raise AssertionError(f"the command takes more than {MOST_STEPS} steps")
