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
