"""All mistakes of a file are told at once, each with its place, its line and what would be right."""

from __future__ import annotations

import pytest

from paddock.core.errors import Invalid
from paddock.manifest.read import read_bytes

TEN_IN_YAML = b"""\
name: Memory_Markdown
version: one
kaged_api: 2
description: Markdown-backed memory.
command: []
env:
  KAGED_PLUGIN_DIR: /tmp
capabilities:
  - read:fs:relative/path
  - net:api.example.com:99999
hooks:
  - on_sesion_start
tools:
  - name: Retain
    description: Keeps it.
    parameters_schema: {type: objekt}
hook_timeout_sec: 61
"""

TEN_IN_JSON = b"""\
{
  "name": "Email Draft",
  "type": "wizard",
  "version": "1",
  "owner": 5,
  "schemas": {
    "input": "../in.json"
  },
  "requires": {
    "tools": ["Doc@banana", "Ok.Tool@1.x", "!"]
  },
  "effects": ["db_write",
    "fly"],
  "observability": {
    "log_level": "loud"
  },
  "timeout_sec": 0
}
"""


def test_ten_mistakes_in_yaml_are_ten_reports() -> None:
    reading = read_bytes("kaged-plugin.yaml", TEN_IN_YAML)

    assert {(error.path, error.line) for error in reading.errors} == {
        ("name", 1),
        ("version", 2),
        ("kaged_api", 3),
        ("command", 5),
        ("env.KAGED_PLUGIN_DIR", 7),
        ("capabilities[0]", 9),
        ("capabilities[1]", 10),
        ("hooks[0]", 12),
        ("tools[0].name", 14),
        ("tools[0].parameters_schema.type", 16),
        ("hook_timeout_sec", 17),
    }
    assert len(reading.errors) == 11
    assert all(error.hint for error in reading.errors), [str(error) for error in reading.errors if not error.hint]


def test_ten_mistakes_in_json_are_ten_reports() -> None:
    reading = read_bytes("manifest.json", TEN_IN_JSON)

    assert {(error.path, error.line) for error in reading.errors} == {
        ("name", 2),
        ("type", 3),
        ("version", 4),
        ("owner", 5),
        ("schemas.input", 7),
        ("requires.tools[0]", 10),
        ("requires.tools[2]", 10),
        ("effects[1]", 13),
        ("observability.log_level", 15),
        ("timeout_sec", 17),
    }
    assert len(reading.errors) == 10
    assert all(error.hint for error in reading.errors), [str(error) for error in reading.errors if not error.hint]


def test_all_of_them_travel_with_the_error() -> None:
    reading = read_bytes("manifest.json", TEN_IN_JSON)
    with pytest.raises(Invalid, match=r"manifest\.json has 10 mistakes") as caught:
        reading.single()

    assert caught.value.problems == reading.errors
    assert caught.value.error_code == "manifest.invalid"


def test_warnings_are_apart_from_mistakes() -> None:
    text = b"name: shell\nversion: 1.0.0\nkaged_api: 1\ndescription: x\ncommand: [x]\ncapabilities: ['net:*']\n"
    reading = read_bytes("kaged-plugin.yaml", text)

    assert reading.errors == ()
    assert [(warning.path, warning.line) for warning in reading.warnings] == [("name", 1), ("capabilities[0]", 6)]


def test_a_flood_of_mistakes_is_cut_off() -> None:
    text = TEN_IN_YAML + b"methods:\n" + b"  - NOT A METHOD\n" * 400
    reading = read_bytes("kaged-plugin.yaml", text)

    assert 50 < len(reading.errors) <= 100


@pytest.mark.parametrize(("name", "text"), [("kaged-plugin.yaml", TEN_IN_YAML), ("manifest.json", TEN_IN_JSON)])
def test_mistakes_are_told_from_the_top_of_the_file_to_its_end(name: str, text: bytes) -> None:
    lines = [error.line or 0 for error in read_bytes(name, text).errors]

    assert lines == sorted(lines)


@pytest.mark.parametrize("name", ["paddock.yaml", "kaged-plugin.yaml", "manifest.yaml"])
def test_a_file_of_comments_is_called_empty(name: str) -> None:
    assert [error.message for error in read_bytes(name, b"# later\n").errors] == ["is empty"]


def test_a_wrong_word_is_told_with_the_right_ones() -> None:
    text = b"""\
paddock: 1
name: x
version: 1.0.0
description: ''
runtime: {command: [x], protocol: mpc}
capabilities: ['host:vault:delete', 'read:fs:data']
tools:
  - {name: a, effects: [read]}
"""
    reading = read_bytes("paddock.yaml", text)
    protocol, mode, path, effect = reading.errors

    assert protocol.hint.endswith("allowed: paddock, mcp")
    assert mode.message == "host:vault has no mode 'delete'"
    assert "host:vault:read or host:vault:write" in mode.hint
    assert "config:/" in path.hint and "project:/" in path.hint
    assert effect.hint.startswith("did you mean 'read_only'?")
    assert [(warning.path, warning.message) for warning in reading.warnings] == [("description", "is empty")]


@pytest.mark.parametrize("runtime", ["text", "[python3, main.py]"])
def test_a_program_that_is_not_written_as_one_is_told_how(runtime: str) -> None:
    text = f"paddock: 1\nname: x\nversion: 1.0.0\ndescription: x\nruntime: {runtime}\n"
    (error,) = read_bytes("paddock.yaml", text.encode()).errors

    assert error.hint.startswith("give one of: command")


def test_a_missing_program_is_asked_for_in_the_file_at_hand() -> None:
    ours = read_bytes("paddock.yaml", b"paddock: 1\nname: x\nversion: 1.0.0\ndescription: x\n")
    theirs = read_bytes("manifest.json", b'{"name": "x", "type": "tool", "version": "1.0.0"}')

    assert [warning.hint for warning in ours.warnings] == ["add a 'runtime:' (command, python, module or url)"]
    assert any("put a paddock.yaml with a 'runtime:' beside the manifest" in one.hint for one in theirs.warnings)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (b'{"mcpServers": {"a": {"command": "x", "type": "tcp"}}}', "allowed: stdio, http"),
        (b'{"mcpServers": {"a": "x"}}', "write a 'command' for a local server"),
        (b'{"mcpServers": {"a": {}}}', "write a 'command' for a local server"),
    ],
)
def test_a_hint_is_about_the_mistake_it_stands_beside(text: bytes, hint: str) -> None:
    (error,) = read_bytes("mcp.json", text).errors

    assert hint in error.hint
