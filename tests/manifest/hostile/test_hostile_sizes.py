"""Whatever its size, and whatever it would grow to, a manifest is answered in bounded time and memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.manifest.documents import SOUND_YAML, native, refusal, sound, the_only_error

from fixtures.commands import SOURCE
from paddock.manifest.read import read_bytes, read_each_server
from paddock.manifest.syntax.document import MAX_FILE_BYTES

MEMORY = 400 * 1024 * 1024

SECONDS = 20  # of processor time: far more than a reading takes, far less than an explosion

READER = """
import sys
from collections.abc import Iterable
from pathlib import Path
from paddock.core.errors import Invalid
from paddock.manifest.read import read_package
try:
    reading = read_package(Path(sys.argv[1]))
except Invalid as error:
    print(error.problems[0].code)
else:
    print(reading.errors[0].code if reading.errors else "sound")
"""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def answer_within_limits(folder: Path) -> str:
    """What a reader with little memory and little time says about a package."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READER, str(folder)],
        env={"PYTHONPATH": str(SOURCE), "PATH": os.environ["PATH"]},
        preexec_fn=limited,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return done.stdout.strip()


BOMBS = {
    "aliases": ("paddock.yaml", "a: &a [x]\n" + "\n".join(f"k{i}: &b{i} [*a, *a]" for i in range(50)), "alias"),
    "deep yaml": ("paddock.yaml", "[" * 500_000, "too_deep"),
    "deep yaml maps": ("paddock.yaml", "{a: " * 100_000, "too_deep"),
    "deep yaml indent": ("paddock.yaml", "\n".join(" " * i + "a:" for i in range(1000)), "too_deep"),
    "deep yaml dashes": ("paddock.yaml", "- " * 300_000, "too_deep"),
    "deep json": ("manifest.json", "[" * 1_000_000, "too_deep"),
    "deep json objects": ("manifest.json", '{"a":' * 200_000, "too_deep"),
    "closed deep json": ("manifest.json", "[" * 400 + "]" * 400, "too_deep"),
    "deep python": ("manifest.py", "PLUGIN_MANIFEST = " + "[" * 100_000, "malformed"),
    "deep python dicts": ("manifest.py", "PLUGIN_MANIFEST = " + "{'a': " * 80 + "1" + "}" * 80, "too_deep"),
    "long python sum": ("manifest.py", "PLUGIN_MANIFEST = " + "1+" * 100_000 + "1", "too_deep"),
    "long python minus": ("manifest.py", "PLUGIN_MANIFEST = " + "-" * 200_000 + "1", "too_deep"),
    "long python attributes": ("manifest.py", "PLUGIN_MANIFEST = a" + ".a" * 100_000, "too_deep"),
    "many python values": ("manifest.py", "PLUGIN_MANIFEST = [" + "1," * 120_000 + "]", "too_many_values"),
    "large python": ("manifest.py", "PLUGIN_MANIFEST = [" + "1," * 500_000 + "]", "too_large"),
    "many yaml values": ("paddock.yaml", "- 1\n" * 200_000, "too_many_values"),
    "many json values": ("manifest.json", "[" + "[]," * 300_000 + "[]]", "too_many_values"),
    "many yaml keys": ("paddock.yaml", "".join(f"k{i}: 1\n" for i in range(90_000)), "too_many_values"),
    "open comments": (".mcp.json", "/*" * 500_000, "malformed"),
    "comment chain": (".mcp.json", '{"a": 1,' + " /* */" * 150_000, "malformed"),
    "escaped quotes": (".mcp.json", '\\"' * 500_000, "malformed"),
    "commas": (".mcp.json", "," * 1_000_000, "malformed"),
    "garbage after yaml": ("paddock.yaml", SOUND_YAML + "}" * 1_000_000, "malformed"),
    "large key": ("paddock.yaml", '"' + "k" * 1_000_000 + '": 1', "malformed"),
    "huge int": ("manifest.json", '{"type": ' + "9" * 500_000 + "}", "number"),
    "huge hex": ("manifest.py", "PLUGIN_MANIFEST = {'a': 0x" + "f" * 200_000 + "}", "number"),
    "slow expression": (
        "paddock.yaml",
        SOUND_YAML + "config_schema: {properties: {a: {pattern: '" + "(a+)+" * 2000 + "'}}}",
        "schema.pattern",
    ),
    "wide schema": (
        "paddock.yaml",
        SOUND_YAML + "config_schema: {$ref: '#/$defs/a', $defs: {a: {anyOf: [" + "{$ref: '#/$defs/a'}," * 5000 + "]}}}",
        "",
    ),
}


def a_few(names: Iterable[str]) -> list[Any]:
    """All of them, of which one of three runs every day: one after another they take seconds."""
    return [pytest.param(name, marks=pytest.mark.slow if at % 3 else ()) for at, name in enumerate(names)]


@pytest.mark.parametrize("bomb", a_few(BOMBS))
def test_a_bomb_is_refused_in_little_time_and_memory(tmp_path: Path, bomb: str) -> None:
    name, text, code = BOMBS[bomb]
    (tmp_path / name).write_text(text, encoding="utf-8")

    said = answer_within_limits(tmp_path)

    assert said != "sound"
    assert said == code or not code


def listed(**lists: Any) -> str:
    return json.dumps({"paddock": 1, "name": "a", "version": "1.0.0", "description": "x"} | lists)


KAGED_BASE = {"name": "a", "version": "1.0.0", "kaged_api": 1, "description": "x", "command": ["x"], "capabilities": []}

MANY = 15_000  # values enough to hang whoever compares each with each, and few enough to be read

CROWDS: dict[str, tuple[str, str]] = {
    "capabilities": ("paddock.json", listed(capabilities=[f"net:h{i}.example:443" for i in range(MANY)])),
    "tools": ("paddock.json", listed(tools=[f"t{i}" for i in range(MANY)])),
    "methods": ("paddock.json", listed(methods=[f"t{i}.x" for i in range(MANY)])),
    "effects": ("paddock.json", listed(tools=[{"name": "a", "effects": [f"db_writ{i}" for i in range(MANY)]}])),
    "scopes": ("paddock.json", listed(identities=[{"provider": "a", "scopes": [f"s{i}" for i in range(MANY)]}])),
    "secrets of operations": (
        "paddock.json",
        listed(operation_auth={"a": {"secrets": {f"s{i}": "user" for i in range(MANY)}}}),
    ),
    "kaged tools": (
        "kaged-plugin.json",
        json.dumps(KAGED_BASE | {"tools": [{"name": f"t{i}", "description": "x"} for i in range(MANY)]}),
    ),
    "kaged fields": ("kaged-plugin.json", json.dumps(KAGED_BASE | {f"capabilitiez{i}": 1 for i in range(MANY)})),
    "knob labels": (
        "kaged-plugin.json",
        json.dumps(
            KAGED_BASE
            | {
                "config_schema": {"properties": {"x": {"type": "string"}}},
                "knobs": {
                    "x": {
                        "type": "enum",
                        "label": "x",
                        "default": "v1",
                        "binds_to": "config.x",
                        "values": [f"v{i}" for i in range(MANY)],
                        "labels": {f"v{i}": "x" for i in range(MANY)},
                    }
                },
            }
        ),
    ),
    "servers": ("mcp.json", json.dumps({"mcpServers": {f"s{i}": {"command": "x"} for i in range(MANY)}})),
}


@pytest.mark.parametrize("crowd", a_few(CROWDS))
def test_a_list_of_very_many_is_refused_without_comparing_each_with_each(tmp_path: Path, crowd: str) -> None:
    name, text = CROWDS[crowd]
    (tmp_path / "kaged-plugin.yaml" if name.startswith("kaged") else tmp_path / name).write_text(text)
    if name == "paddock.json":
        (tmp_path / name).rename(tmp_path / "paddock.yaml")

    assert answer_within_limits(tmp_path) not in ("sound", "too_many_values")


def test_one_module_of_many_entrypoints_is_parsed_once(tmp_path: Path) -> None:
    entrypoints = {f"e{i}": f"big:C{i}" for i in range(2000)}
    (tmp_path / "manifest.yaml").write_text(json.dumps({"name": "a", "version": "1.0.0", "entrypoints": entrypoints}))
    (tmp_path / "big.py").write_text("a=1\n" * 60_000 + "class C1: pass\n")

    assert answer_within_limits(tmp_path) != "sound"


def test_one_schema_for_many_entrypoints_is_checked_once(tmp_path: Path) -> None:
    schema = {"properties": {f"p{i}": {"type": "string"} for i in range(1500)}}
    entrypoints = {f"e{i}": "pkg:C" for i in range(2000)}
    document = {"name": "a", "version": "1.0.0", "entrypoints": entrypoints, "params_schema": schema}
    (tmp_path / "manifest.yaml").write_text(json.dumps(document))

    assert answer_within_limits(tmp_path) != "sound"


def test_every_server_of_a_crowded_settings_file_is_not_read_by_itself(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(CROWDS["servers"][1])

    ((_, reading),) = read_each_server(tmp_path / "mcp.json")

    assert reading.errors


def test_no_entry_of_a_list_goes_unseen_because_the_list_is_long() -> None:
    scopes = [f"s{i}" for i in range(2001)]

    assert sound(native(identities=[{"provider": "a", "scopes": scopes[:2000]}])).identities[0].scopes[-1] == "s1999"
    error = the_only_error(native(identities=[{"provider": "a", "scopes": scopes}]))
    assert (error.path, error.code) == ("identities[0].scopes", "too_many_entries")


def test_a_manifest_of_a_hundred_megabytes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "paddock.yaml").open("wb") as file:
        file.truncate(100 * 1024 * 1024)

    assert answer_within_limits(tmp_path) == "too_large"


def test_one_byte_too_many_is_too_many() -> None:
    assert refusal("paddock.yaml", b"#" * (MAX_FILE_BYTES + 1)).code == "too_large"
    assert read_bytes("paddock.yaml", SOUND_YAML.encode() + b"#" * (MAX_FILE_BYTES - len(SOUND_YAML))).valid


def test_an_expression_that_explodes_is_judged_in_linear_time(tmp_path: Path) -> None:
    knob = {"type": "text", "label": "x", "default": "a" * 5000 + "!", "pattern": "^(a+)+$", "binds_to": "config.x"}
    document = {"config_schema": {"properties": {"x": {"type": "string"}}}, "knobs": {"it": knob}}
    base = {"name": "a", "version": "1.0.0", "kaged_api": 1, "description": "x", "command": ["x"], "capabilities": []}
    (tmp_path / "kaged-plugin.yaml").write_text(json.dumps(base | document))

    assert answer_within_limits(tmp_path) == "knob_default"
