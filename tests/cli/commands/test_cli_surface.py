"""What holds for every command: help with an example, --json, exit codes, colours, and a terminal left unharmed."""

from __future__ import annotations

import dataclasses
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import INTERRUPT, Paddock
from fixtures.packages import TEXT, kernel, native, osqr, shu, write_file, write_json, zipped
from fixtures.parrot import parrot
from paddock import __version__
from paddock.cli.main import COMMANDS


def test_a_command_shows_its_help_on_h_and_on_help(paddock: Paddock) -> None:
    shown = paddock("plugin", "list", "-h").out
    assert "paddock plugin list --kind operator --json" in shown
    assert paddock("plugin", "list", "--help").out == shown


def test_the_first_screen_names_every_command_and_says_what_it_is_for(paddock: Paddock) -> None:
    shown = [" ".join(line.split()) for line in paddock("--help").out.splitlines()]
    assert [line for line in shown if line.partition(" ")[0] in COMMANDS] == [
        f"{name} {command.summary}" for name, command in COMMANDS.items()
    ]


def test_the_version_is_that_of_the_package(paddock: Paddock) -> None:
    assert paddock.quickly("--version").out == f"paddock {__version__}\n"


def test_what_no_command_understands_ends_with_2(paddock: Paddock) -> None:
    for words in (["fly"], ["plugin", "fly"], ["plugin", "list", "--fly"], ["plugin", "show"], ["key", "trust"]):
        said = paddock.quickly(*words, code=2)
        assert said.out == ""
    assert "fly" in paddock("fly", code=2).err
    assert not paddock.home.exists()


def test_a_command_line_that_nobody_understands_is_told_as_json_too(paddock: Paddock) -> None:
    for words in (["fly"], ["plugin", "fly"], ["plugin", "list", "--fly"], ["plugin", "show"]):
        said = paddock.quickly(*words, "--json", code=2)
        assert said.error["code"] == "usage"
        assert said.error["message"] in said.err
    assert "missing argument 'NAME'" in said.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("plugin delete", "paddock plugin remove"),
        ("plugin rm", "paddock plugin remove"),
        ("apikey revoke", "paddock apikey remove"),
        ("apikey create", "paddock apikey add"),
        ("approvals", "paddock approval"),
        ("plugin ls", "paddock plugin list"),
        ("plugin update", "paddock plugin upgrade"),
        ("plugin instal", "paddock plugin install"),
        ("install", "paddock plugin install"),
        ("remove", "paddock plugin remove"),
        ("plugins", "paddock plugin"),
        ("doctr", "paddock doctor"),
        ("help", "paddock --help"),
        ("version", "paddock --version"),
    ],
)
def test_an_unknown_command_is_answered_with_the_one_that_was_meant(paddock: Paddock, typed: str, meant: str) -> None:
    assert paddock.quickly(*typed.split(), code=2).err.endswith(f"did you mean: {meant}\n")


def breaking(paddock: Paddock, script: str) -> Paddock:
    """Commands in which something happens that nobody foresaw."""
    folder = paddock.home.parent / "breaking"
    write_file(folder / "sitecustomize.py", script)
    path = paddock.environment["PYTHONPATH"]
    return dataclasses.replace(paddock, more={"PYTHONPATH": f"{folder}:{path}", "PYTHONWARNINGS": "ignore"}, fresh=True)


BROKEN = """
import paddock.config.load
def load_settings(*args, **kwargs):
    raise TypeError("a canary\\x1b[31m")
paddock.config.load.load_settings = load_settings
"""


def test_what_nobody_foresaw_is_one_sentence_and_its_origin_only_on_request(paddock: Paddock) -> None:
    broken = breaking(paddock, BROKEN)
    said = broken("config", "show", "--json", code=1)
    assert said.error["code"] == "internal"
    assert "something went wrong inside Paddock: TypeError: a canary" in said.err
    assert "\x1b" not in said.err
    assert "PADDOCK_DEBUG=1" in said.error["hint"]

    with dataclasses.replace(broken, more=broken.more | {"PADDOCK_DEBUG": "1"}).start("config", "show") as process:
        _, err = process.communicate(timeout=60)
    assert "Traceback" in err
    assert process.returncode == 1


@pytest.mark.slow
def test_commands_work_in_a_directory_that_was_removed(paddock: Paddock, source: Path) -> None:
    native(source / "n")
    gone = source / "gone"
    for words, code in (
        (["plugin", "install", str(source / "n"), "--yes"], 0),
        (["plugin", "install", "n", "--yes"], 3),
        (["doctor", "--json"], None),
    ):
        gone.mkdir()
        # Removed by the shell that stands in it, as a person would.
        line = shlex.join([sys.executable, "-m", "paddock.cli", *words])
        ran = subprocess.run(
            ["sh", "-c", f"rmdir {gone}; exec {line}"],
            cwd=gone, env=paddock.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert "Traceback" not in ran.stderr
        assert code is None or ran.returncode == code, ran.stderr


def shell(paddock: Paddock, line: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A line of shell in which $P is our command."""
    environment = paddock.environment | more | {"P": shlex.join([sys.executable, "-m", "paddock.cli"])}
    return subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_a_terminal_without_our_characters_gets_their_escapes(paddock: Paddock, source: Path) -> None:
    native(source, description="naïve • notes")
    poor = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in ("install --yes", "list", "show"):
        verb, *rest = words.split()
        name = "" if verb == "list" else str(source) if verb == "install" else "notes"
        ran = shell(paddock, f"$P plugin {verb} {name} {' '.join(rest)}", **poor)
        assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr
    assert "\\u2022" in ran.stdout


def test_a_result_that_cannot_be_written_is_a_failure_in_words(paddock: Paddock) -> None:
    ran = shell(paddock, "$P config show > /dev/full")
    assert ran.returncode == 1
    assert ran.stderr == "error: the result could not be written: No space left on device\n"


@pytest.mark.slow
def test_a_reader_that_went_away_ends_a_command_without_a_word(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    for words in (["plugin", "list", "-v"], ["config", "show", "--json"], ["plugin", "show", "notes"]):
        reader, writer = os.pipe()
        os.close(reader)
        ran = subprocess.run(
            [sys.executable, "-m", "paddock.cli", *words],
            stdout=writer, stderr=subprocess.PIPE, env=paddock.environment, text=True, timeout=60, check=False,
        )  # fmt: skip
        os.close(writer)
        assert (ran.returncode, ran.stderr) == (141, "")
    assert shell(paddock, "$P plugin list >&-").returncode == 0


def test_each_kind_of_trouble_has_its_exit_code(paddock: Paddock, source: Path) -> None:
    native(source / "n")
    paddock.quickly("plugin", "install", source / "n", "--yes", code=0)
    write_file(source / "n" / "more", "")
    codes = {
        1: ["plugin", "install", source / "n", "--yes"],
        2: ["plugin", "enable"],
        3: ["plugin", "enable", "absent"],
        4: ["plugin", "remove", "notes"],
        6: ["plugin", "validate", "notes#add/input", "{}"],
    }
    for code, words in codes.items():
        said = paddock.quickly(*words, code=code)
        assert said.err and not said.out
    write_file(paddock.trees / "notes" / "1.0.0" / "more", "")
    assert "not the ones you consented to" in paddock.quickly("plugin", "enable", "notes", code=7).err
    paddock.quickly("plugin", "install", parrot(source / "parrot"), "--yes")
    paddock.quickly("plugin", "enable", "parrot")
    paddock.quickly("user", "add", "eve")
    paddock.quickly("user", "disable", "eve")
    assert (
        "user:eve is disabled" in paddock("call", "parrot.say", "-p", '{"text": "x"}', "--as", "user:eve", code=5).err
    )
    assert paddock("call", "parrot.wait", "--timeout", "0.5", "--json", code=8).error["code"] == "call.timeout"


def test_an_interrupted_question_ends_with_130_and_changes_nothing(paddock: Paddock, source: Path) -> None:
    screen = paddock.on_terminal("plugin", "install", native(source), answers=[INTERRUPT], code=130)
    assert "interrupted" in screen

    assert paddock.listed() == {}
    assert list(paddock.staging.iterdir()) == []


def test_a_no_stops_and_is_not_called_waiting(paddock: Paddock, source: Path) -> None:
    plain = dataclasses.replace(paddock, more={"NO_COLOR": "1"})
    screen = plain.on_terminal("plugin", "install", native(source), answers=["n"], code=4)
    assert "stopped: " in screen
    assert "waiting:" not in screen
    assert "waiting: " in plain("plugin", "install", source, code=4).err


def test_colours_appear_on_a_terminal_and_not_where_they_are_unwanted(paddock: Paddock, source: Path) -> None:
    native(source)
    coloured = paddock.on_terminal("plugin", "install", source, "--yes")
    assert "\x1b[1m" in coloured
    plain = dataclasses.replace(paddock, more={"NO_COLOR": "1"})
    assert "\x1b[1m" not in plain.on_terminal("plugin", "list")
    # No terminal, no colours.
    assert "\x1b" not in (said := paddock("plugin", "list")).out + said.err


HOSTILE = "one\x1b[31mtwo\x1b]0;title\x07three\x9b2Jfour\u202efive\x7fsix\u2028seven"


def assert_harmless(screen: str) -> None:
    # Our own progress line clears itself with this; nothing else may come.
    rest = screen.replace("\x1b[K", "").replace("\r", "").replace("\n", "")
    odd = sorted({hex(ord(character)) for character in rest if not character.isprintable()})
    assert odd == [], odd


def test_what_a_plugin_says_of_itself_never_drives_the_terminal(paddock: Paddock, source: Path) -> None:
    paddock = dataclasses.replace(paddock, more={"NO_COLOR": "1"})
    native(source, description=HOSTILE, homepage=f"https://example.org/{HOSTILE}")
    for words in (["check", source], ["check", source, "--show"], ["check", source, "--json"]):
        assert_harmless(paddock.on_terminal("plugin", *words))
    assert_harmless(paddock.on_terminal("plugin", "install", source, answers=["y"]))
    for words in (["list"], ["list", "--verbose"], ["list", "--json"], ["show", "notes"], ["show", "notes", "--json"]):
        assert_harmless(paddock.on_terminal("plugin", *words))


def test_what_check_shows_of_such_texts_reads_back_as_they_were(paddock: Paddock, source: Path) -> None:
    native(source / "a", description=HOSTILE)
    shown = paddock.quickly("plugin", "check", source / "a", "--show").out
    write_file(source / "b" / "paddock.yaml", shown)
    read_back = paddock.quickly("plugin", "check", source / "b", "--show", "--json").json

    assert read_back["manifests"][0]["description"] == HOSTILE


def test_names_of_files_and_mistakes_never_drive_the_terminal(paddock: Paddock, source: Path) -> None:
    paddock = dataclasses.replace(paddock, more={"NO_COLOR": "1"})
    native(source, **{f"bad{HOSTILE}": 1, "capabilities": [HOSTILE], "version": HOSTILE})
    for words in (["check", source], ["check", source, "--json"], ["install", source, "--yes"]):
        assert_harmless(paddock.on_terminal("plugin", *words, code=6))

    write_file(native(source / "b") / "evil\x1b[31m.py", "")
    archive = zipped(source / "b", source / "b.zip")
    for package in (source / "b", archive):
        assert_harmless(paddock.on_terminal("plugin", "install", package, "--yes", code=6))


@pytest.mark.parametrize("make", [native, kernel, osqr, shu])
def test_what_check_shows_is_a_manifest_that_means_the_same(paddock: Paddock, source: Path, make: Any) -> None:
    shown = paddock.quickly("plugin", "check", make(source / "a"), "--show").out
    for path in (source / "a").rglob("*"):
        target = source / "b" / path.relative_to(source / "a")
        if path.is_file() and path.parent != source / "a":
            write_file(target, path.read_text())
    write_file(source / "b" / "paddock.yaml", shown)
    again = paddock.quickly("plugin", "check", source / "b", "--show").out

    assert again == shown


def test_check_tells_every_mistake_of_a_directory_an_archive_and_a_file(paddock: Paddock, source: Path) -> None:
    native(source / "n", version="one", name="A B")
    archive = zipped(source / "n", source / "n.zip")
    for what in (source / "n", archive, source / "n" / "paddock.yaml"):
        said = paddock.quickly("plugin", "check", what, "--json", code=6)
        assert said.json["valid"] is False
        assert {problem["path"] for problem in said.json["errors"]} == {"name", "version"}
    told = paddock("plugin", "check", source / "n", code=6)
    assert told.out == ""
    assert "paddock.yaml has 2 mistakes" in told.err
    paddock.quickly("plugin", "check", source / "absent.yaml", code=3)
    assert not paddock.home.exists()

    sound = paddock("plugin", "check", native(source / "s"))
    assert sound.out == "notes 1.0.0: sound (paddock manifest, paddock.yaml)\n"
    servers = write_json(source / "mcp.json", {"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    assert [one["name"] for one in paddock.quickly("plugin", "check", servers, "--json").json["plugins"]] == ["a", "b"]


@pytest.mark.req("K-03", "validate by schema")
def test_a_value_is_validated_from_the_command_line(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", kernel(source, input_schema=TEXT), "--yes")
    assert "it fits" in paddock("plugin", "validate", "Email.GenerateDraft@1.x#input", '{"text": "hi"}').err
    said = paddock("plugin", "validate", "Email.GenerateDraft#input", '{"text": 7}', "--json", code=6)

    assert said.error["code"] == "value.invalid"
    assert [problem["path"] for problem in said.error["errors"]] == ["text"]
    assert paddock.quickly("plugin", "validate", "Email.GenerateDraft#input", "{", "--json", code=6).error["code"] == (
        "json.malformed"
    )


def test_settings_are_shown_with_where_they_come_from_and_without_secrets(paddock: Paddock) -> None:
    told = dataclasses.replace(paddock, more={"PADDOCK_VERSIONS_RETENTION_DAYS": "7"})
    said = told("config", "show", "--json").json["settings"]
    assert said["versions.retention_days"]["value"] == "7"
    assert "PADDOCK_VERSIONS_RETENTION_DAYS" in said["versions.retention_days"]["origin"]

    secret = dataclasses.replace(paddock, more={"PADDOCK_STORE_URL": "postgresql://me:canary-1d2f@db.invalid/paddock"})
    shown = secret("config", "show", "--origin")
    assert "canary-1d2f" not in shown.out + shown.err
    assert "ORIGIN" in shown.out


def test_a_mistake_in_the_settings_is_told_and_ends_with_6(paddock: Paddock) -> None:
    wrong = dataclasses.replace(paddock, more={"PADDOCK_VERSIONS_RETENTION_DAYS": "many"})

    error = wrong("plugin", "list", "--json", code=6).error
    assert [problem["path"] for problem in error["errors"]] == ["PADDOCK_VERSIONS_RETENTION_DAYS"]


def test_a_cloned_repository_cannot_stop_our_commands(paddock: Paddock, source: Path) -> None:
    write_file(paddock.home.parent / ".paddock" / "config.toml", "[store]\nurl = '/theirs.db'\n")
    for words in (["plugin", "list"], ["plugin", "install", native(source), "--yes"], ["config", "show"]):
        assert "store.url (line 2): a project may not set this" in paddock(*words).err
    shown = paddock("config", "show", "--json").json
    assert shown["warnings"][0]["code"] == "config.project_ignored"
    assert shown["settings"]["store.url"]["value"] == "unset"


def test_what_is_missing_or_out_of_reach_is_not_called_invalid(paddock: Paddock, source: Path) -> None:
    for words in (
        ["install", source / "absent"],
        ["install", f"git+{source / 'absent'}"],
        ["check", source / "absent"],
    ):
        paddock.quickly("plugin", *words, code=3)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    away = paddock("plugin", "install", f"git+https://127.0.0.1:{port}/x.git", "--yes", "--json", code=1)
    assert (away.error["code"], away.error["category"]) == ("git.failed", "dependency")
    unusable = dataclasses.replace(paddock, more={"PADDOCK_HOME": "/proc/paddock"})
    assert unusable("plugin", "list", "--json", code=1).error["code"] == "config.home_unusable"


def test_the_doctor_answers_with_one_document_and_the_lines_to_type(paddock: Paddock) -> None:
    bare = dataclasses.replace(paddock, more={"PATH": "/nowhere"})  # without bubblewrap, for instance
    checks = bare("doctor", "--json", code=1).json["checks"]
    shown = [" ".join(line.split()) for line in bare("doctor", code=1).out.splitlines()]

    assert {"Python", "bubblewrap", "cage"} <= {check["name"] for check in checks}
    for check in checks:
        assert any(line.lower().startswith(f"{check['status']} {check['name']} ".lower()) for line in shown), check
    fixes = {check["name"]: check["fix"] for check in checks if check["status"] == "fail"}
    assert fixes["bubblewrap"] == "sudo apt install bubblewrap"
    assert all(f"→ {' '.join(fix.split())}" in " ".join(shown) for fix in fixes.values())
