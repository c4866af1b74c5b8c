"""`paddock dev` as people and scripts meet it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, SOURCE, Paddock
from fixtures.packages import native, write_file
from fixtures.ready_commands import ReadyCommand


@pytest.fixture
def greeter(paddock: Paddock) -> Path:
    folder = paddock.home.parent / "greeter"
    paddock.quickly("plugin", "new", "greeter", folder)
    return folder


def save(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


class Terminal:
    """A command on a pseudo-terminal, with a person in front of it."""

    def __init__(self, ours: int) -> None:
        self._ours = ours
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str, since: int = 0) -> int:
        """Read until this stands on the screen; where it ends there."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.screen.find(text, since)) < 0:
            assert time.monotonic() < deadline, f"{text!r} never came\n{self.screen}"
            if select.select([self._ours], [], [], 1)[0]:
                self.screen += os.read(self._ours, 65_536).decode("utf-8", "replace")
        return found + len(text)


@contextmanager
def on_terminal(paddock: Paddock, *words: object) -> Generator[Terminal, None, None]:
    ours, theirs = pty.openpty()
    process = ReadyCommand(
        SOURCE, [*map(str, words)],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**paddock.environment, "NO_COLOR": "1"},
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Terminal(ours)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.req("B-09", "reloads when it changes")
def test_a_half_typed_line_outlives_the_reload_that_happens_meanwhile(paddock: Paddock, greeter: Path) -> None:
    with on_terminal(paddock, "dev", greeter, "--no-traffic") as terminal:
        terminal.until("[y/N] ")
        terminal.type("y\n")
        at = terminal.until("following ", terminal.until("greeter 0.1.0 runs"))
        terminal.type('greet {"na')
        terminal.until('> greet {"na', at)
        save(greeter / "main.py", '{name}!"', '{name}, dear!"')
        at = terminal.until("runs after main.py")
        terminal.type('me": "Ann"}\n')
        terminal.until('= greet {"text": "Hello, Ann, dear!"}', at)
        terminal.type("quit\n")


@pytest.mark.slow
def test_on_a_terminal_keys_edit_the_line_and_bring_back_the_last_one(paddock: Paddock, greeter: Path) -> None:
    with on_terminal(paddock, "dev", greeter, "--yes", "--no-traffic") as terminal:
        terminal.until("following ")
        terminal.type('wrong\x15greet {"name": "Bobx\x7f"}\n')
        at = terminal.until('= greet {"text": "Hello, Bob!"}')
        terminal.type("\x1b[A")
        at = terminal.until('> greet {"name": "Bob"}', at)
        terminal.type("\n")
        terminal.until('= greet {"text": "Hello, Bob!"}', at)
        terminal.type("\x04")  # Ctrl-D


@contextmanager
def events(paddock: Paddock, *words: object) -> Generator[tuple[subprocess.Popen[str], Any], None, None]:
    """A session whose events are read from a pipe, and that is typed to through another."""
    process = ReadyCommand(
        SOURCE, ["dev", *map(str, words), "--json", "--yes"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=paddock.environment,
    )  # fmt: skip
    assert process.stdout is not None
    stdout = process.stdout

    def until(kind: str) -> dict[str, Any]:
        for line in stdout:
            event = json.loads(line)
            if event["event"] == kind:
                return event
        raise AssertionError(f"no {kind!r} came")

    try:
        yield process, until
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_for_machines_there_is_one_event_a_line_and_lines_can_be_typed_through_a_pipe(
    paddock: Paddock, greeter: Path
) -> None:
    with events(paddock, greeter, "--call", "greet", "--params", '{"name": "Ann"}') as (process, until):
        assert process.stdin is not None
        assert until("loaded")["callables"] == ["greet"]
        until("watching")
        assert until("answer")["result"] == {"text": "Hello, Ann!"}
        save(greeter / "main.py", "Hello", "Hallo")
        save(greeter / "paddock.yaml", "Hello", "Hallo")
        while until("answer")["result"] != {"text": "Hallo, Ann!"}:
            pass  # the two may have been seen one after the other
        process.stdin.write('greet {"name": "Bob"}\n')
        process.stdin.flush()
        while until("answer")["result"] != {"text": "Hallo, Bob!"}:
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_once_is_one_load_and_one_call_and_its_exit_code_says_how_they_went(paddock: Paddock, greeter: Path) -> None:
    once = ("dev", greeter, "--once", "--yes", "--call", "greet", "--params")

    said = paddock(*once, '{"name": "Ann"}')
    assert re.search(r'^→ call greet \{"name": "Ann"\}$', said.out, re.MULTILINE)
    assert re.search(r'^← result greet \{"text": "Hello, Ann!"\}  [\d.]+ ms$', said.out, re.MULTILINE)
    assert re.search(r'^= greet \{"text": "Hello, Ann!"\}  [\d.]+ ms$', said.out, re.MULTILINE)
    assert "name: missing" in paddock(*once, "{}", code=1).out
    save(greeter / "main.py", "def greet", "def greet(")
    assert "nothing serves yet" in paddock(*once, '{"name": "Ann"}', code=1).out


def test_a_tool_that_the_program_calls_otherwise_is_told_when_it_is_loaded(paddock: Paddock, greeter: Path) -> None:
    main = greeter / "main.py"
    main.write_text(main.read_text().replace("def greet(", "def greeet("))

    said = paddock("dev", greeter, "--yes", "--once", "--no-traffic")

    assert "! the manifest declares greet, the program serves greeet" in said.out


def test_without_a_terminal_and_without_yes_nothing_runs(paddock: Paddock, greeter: Path) -> None:
    said = paddock("dev", greeter, "--once", "--json", code=4)

    assert said.error["code"] == "consent_required"
    assert "--yes" in said.error["hint"]


@pytest.mark.slow
def test_a_home_that_is_named_is_kept_and_used_by_one_session_at_a_time(paddock: Paddock, greeter: Path) -> None:
    home = paddock.home.parent / "dev-home"
    paddock("dev", greeter, "--once", "--yes", "--home", home)
    assert (home / "data" / "paddock.db").is_file()
    with events(paddock, greeter, "--home", home) as (_, until):
        until("watching")
        said = paddock("dev", greeter, "--once", "--yes", "--home", home, "--json", code=1)
    assert json.loads(said.out.splitlines()[-1])["error"]["code"].startswith("store")


SECRETIVE = """
from paddock_sdk import Plugin

plugin = Plugin("secretive", "1.0.0")

@plugin.tool
def tell(params, context):
    return {"lengths": [len(plugin.host.secrets.get(name).wait()) for name in ("theirs", "ours")]}

plugin.run()
"""


@pytest.mark.slow
def test_a_plugin_is_given_the_secrets_that_files_hold_and_how_is_said_where_one_is_missing(
    paddock: Paddock, tmp_path: Path
) -> None:
    folder = native(
        tmp_path / "secretive", "secretive", runtime={"command": ["python3", "./main.py"]},
        capabilities=["net:[]", "host:secrets"], tools=[{"name": "tell", "effects": ["read_only"]}],
        operation_auth={"tell": {"secrets": {"theirs": "user", "ours": "system"}}},
    )  # fmt: skip
    write_file(folder / "main.py", SECRETIVE)
    for name, value in (("theirs", "hunter2\n"), ("ours", "canary")):
        write_file(tmp_path / name, value)
    once = ("dev", folder, "--once", "--yes", "--call", "tell")
    given = [f"--secret={name}=@{tmp_path / name}" for name in ("theirs", "ours")]

    refused = paddock(*once, "--no-traffic", code=1)
    said = paddock(*once, *given)
    tested = paddock("plugin", "test", folder, *given)

    assert f"paddock dev {folder} --secret ours=@FILE --secret theirs=@FILE" in refused.out
    assert '{"lengths": [7, 6]}' in said.out
    for value in ("hunter2", "canary"):
        assert value not in said.out + said.err + tested.out + tested.err
    assert "0 failed" in tested.out


@pytest.mark.slow
def test_a_secret_of_the_home_that_a_plugin_runs_in_is_not_replaced_by_one_that_its_author_gives(
    paddock: Paddock, greeter: Path, tmp_path: Path
) -> None:
    write_file(tmp_path / "token", "canary")
    words = ("dev", greeter, "--once", "--yes", "--home", paddock.home, "--secret", f"token=@{tmp_path / 'token'}")

    paddock(*words)
    paddock(*words)  # what the author gave before is theirs to give again

    def kept() -> dict[str, tuple[int, str]]:
        rows = paddock.quickly("secret", "list", "--json").json["secrets"]
        return {row["name"]: (row["version"], row["set_by"]) for row in rows if row["scope"] == "system"}

    assert kept() == {"token": (2, "local:author")}
    paddock.piped("hunter2", "secret", "set", "token")
    before = kept()
    refused = paddock(*words, code=1)
    assert "this home has secrets of its own with these names: token" in refused.err
    assert kept() == before and before["token"][0] == 3


@pytest.mark.parametrize(("given", "code"), [("token=hunter2", 2), ("token=@nofile", 3), ("a name=@main.py", 6)])
def test_a_secret_is_given_by_the_name_of_a_file_alone(paddock: Paddock, greeter: Path, given: str, code: int) -> None:
    file = given.replace("@main.py", f"@{greeter / 'main.py'}")
    refused = paddock("dev", greeter, "--once", "--yes", "--secret", file, code=code)
    assert "hunter2" not in refused.out + refused.err
