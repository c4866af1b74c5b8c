"""Whatever somebody puts where a manifest should be gets a clear answer, in bounded time and memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.manifest.documents import bundle, kaged, kernel, native, osqr, read_json, shu, sound, the_only_error
from tests.manifest.strategies import misshapen_form

from paddock.core.errors import Invalid, Problem
from paddock.manifest.behaviour import consent_sections
from paddock.manifest.document import MAX_BYTES
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.read import FILE_NAMES, read_bytes, read_each, read_file, read_package

MEMORY = 400 * 1024 * 1024
SECONDS = 20  # of processor time: far more than a reading takes, far less than an explosion

READER = """
import sys
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
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READER, str(folder)],
        env={"PYTHONPATH": source, "PATH": os.environ["PATH"]},
        preexec_fn=limited,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return done.stdout.strip()


def refusal(name: str, data: bytes | str) -> Problem:
    with pytest.raises(Invalid) as caught:
        read_bytes(name, data if isinstance(data, bytes) else data.encode())
    (problem,) = caught.value.problems
    return problem


SOUND_YAML = "paddock: 1\nname: a\nversion: 1.0.0\ndescription: x\n"

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


@pytest.mark.parametrize("bomb", BOMBS)
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


@pytest.mark.parametrize("crowd", CROWDS)
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

    ((_, reading),) = read_each(tmp_path / "mcp.json")

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
    assert refusal("paddock.yaml", b"#" * (MAX_BYTES + 1)).code == "too_large"
    assert read_bytes("paddock.yaml", SOUND_YAML.encode() + b"#" * (MAX_BYTES - len(SOUND_YAML))).valid


@pytest.mark.parametrize(
    ("name", "data", "code", "line"),
    [
        ("paddock.yaml", "a: 1\nb: 2\na: 3\n", "duplicate_key", 3),
        ("paddock.yaml", "a:\n  b: 1\n  'b': 2\n", "duplicate_key", 3),
        ("paddock.yaml", "1: a\n'1': b\n", "duplicate_key", 2),
        ("manifest.json", '{"a": 1,\n"b": {"c": 1,\n"c": 2}}', "duplicate_key", 3),
        ("manifest.json", '{"a": 1,\n"\\u0061": 2}', "duplicate_key", 2),
        ("mcp.json", '{"a": 1, // one\n"a": 2,}', "duplicate_key", 2),
        ("manifest.py", "PLUGIN_MANIFEST = {'a': 1,\n'a': 2}", "duplicate_key", 2),
        ("paddock.yaml", b"name: a\nversion: \xff\n", "not_utf8", 2),
        ("manifest.json", b'{"a":\n"\xc3\x28"}', "not_utf8", 2),
        ("manifest.py", b"x = 1\n# \xe9", "not_utf8", 2),
        ("paddock.yaml", b"name: a\nversion: \0", "nul_byte", 2),
        ("paddock.yaml", "a: &x 1\nb: *x\n", "alias", 2),
        ("paddock.yaml", "a: {<<: {b: 1}}\n", "merge", 1),
        ("paddock.yaml", "a: !!python/object/apply:os.system ['true']\n", "tag", 1),
        ("paddock.yaml", "a: !!python/name:os.system\n", "tag", 1),
        ("paddock.yaml", "!!set {a, b}\n", "tag", 1),
        ("paddock.yaml", "a: !!binary aGk=\n", "tag", 1),
        ("paddock.yaml", "a: !own x\n", "tag", 1),
        ("paddock.yaml", "a: 1\n---\nb: 2\n", "many_documents", 2),
        ("paddock.yaml", "a: 123456789012345678901\n", "number", 1),
        ("paddock.yaml", "a: 1e999\n", "number", 1),
        ("paddock.yaml", "? [a]\n: b\n", "bad_key", 1),
        ("paddock.yaml", "~: b\n", "bad_key", 1),
        ("paddock.yaml", "a: 'open\n", "malformed", 2),
        ("paddock.yaml", "a: \x07\n", "malformed", None),
        ("manifest.json", "", "empty", 1),
        ("manifest.yaml", " \n", "empty", 1),
        ("manifest.json", '{"a": NaN}', "not_json", None),
        ("manifest.json", '{"a": -Infinity}', "not_json", None),
        ("manifest.json", '{"a": 1e999}', "number", None),
        ("manifest.json", '{"a": 1,}', "malformed", 1),
        ("manifest.json", '{"a": 1 // x\n}', "malformed", 1),
        ("manifest.py", "x = 1", "missing", None),
        ("manifest.py", "PLUGIN_MANIFEST = {", "malformed", 1),
        ("manifest.py", "PLUGIN_MANIFEST = 1e999", "number", 1),
    ],
)
def test_a_file_that_cannot_be_read_says_why_and_where(
    name: str, data: bytes | str, code: str, line: int | None
) -> None:
    problem = refusal(name, data)

    assert (problem.code, problem.line) == (code, line)


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert sound(read_bytes("paddock.yaml", b"\xef\xbb\xbf" + SOUND_YAML.encode())).name == "a"


def test_an_anchor_that_nothing_refers_to_is_no_mistake() -> None:
    assert sound(read_bytes("paddock.yaml", SOUND_YAML.replace("x", "&x x").encode())).description == "x"


@pytest.mark.parametrize("name", [name for name in FILE_NAMES if not name.endswith(".py")])
@pytest.mark.parametrize("text", ["[]", '"word"', "5", "null", "{}", "[[1]]"])
def test_a_file_that_holds_no_manifest_is_refused_whatever_it_is_called(name: str, text: str) -> None:
    assert not read_bytes(name, text.encode()).valid


def test_a_pipe_a_device_and_a_link_are_not_read_as_a_manifest(tmp_path: Path) -> None:
    pipe, device, link = tmp_path / "pipe", tmp_path / "device", tmp_path / "link"
    for folder in (pipe, device, link):
        folder.mkdir()
    os.mkfifo(pipe / "paddock.yaml")
    (device / "paddock.yaml").symlink_to("/dev/zero")
    (tmp_path / "real.yaml").write_text(SOUND_YAML)
    (link / "paddock.yaml").symlink_to(tmp_path / "real.yaml")

    for folder in (pipe, device, link):
        with pytest.raises(Invalid, match="holds no manifest") as caught:
            read_package(folder)
        assert caught.value.problems[0].message == "paddock.yaml is not a regular file"
    for file in (pipe / "paddock.yaml", device / "paddock.yaml", tmp_path):
        with pytest.raises(Invalid) as caught:
            read_file(file)
        assert caught.value.problems[0].code == "not_a_file"


def test_nothing_outside_a_package_is_read_through_a_link(tmp_path: Path) -> None:
    outside, package = tmp_path / "outside", tmp_path / "package"
    outside.mkdir()
    package.mkdir()
    (outside / "mcp.json").write_text('{"servers": {"x": {"command": "y"}}}')
    (outside / "in.json").write_text("{}")
    (package / ".vscode").symlink_to(outside)
    with pytest.raises(Invalid, match="holds no manifest"):
        read_package(package)

    (package / "schemas").symlink_to(outside)
    (package / "manifest.json").write_text(
        json.dumps({"name": "A.B", "type": "tool", "version": "1.0.0", "schemas": {"input": "schemas/in.json"}})
    )
    assert "schema_missing" in [warning.code for warning in read_package(package).warnings]


@pytest.mark.parametrize("target", ["..outside:X", "...etc.x:X", "/etc/x:X", "a/b:C", "a..b:C"])
def test_an_entrypoint_cannot_lead_out_of_the_package(tmp_path: Path, target: str) -> None:
    (tmp_path / "manifest.yaml").write_text(json.dumps({"name": "a", "version": "1.0.0", "entrypoints": {"a": target}}))

    assert [error.path for error in read_package(tmp_path).errors] == ["entrypoints.a"]


def test_a_folder_without_a_manifest_says_what_to_add(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="holds no manifest") as caught:
        read_package(tmp_path)

    assert "paddock.yaml" in caught.value.problems[0].hint


HOMOGLYPHS = ["раddock", "ｐlugin", "pay\u200bpal", "K\u212a", "a\u0301"]


@pytest.mark.parametrize("name", HOMOGLYPHS)
def test_a_name_that_can_pass_for_another_is_refused_with_the_character(name: str) -> None:
    for reading in (native(name=name), kaged(name=name), kernel(name=name), shu(name=name)):
        error = the_only_error(reading)
        assert error.path == "name"
        assert "U+" in error.message
        assert error.message.isprintable()


@pytest.mark.parametrize("name", ["Paddock", "SYSTEM", "kaged", "plugins", "mcp"])
def test_reserved_names_are_refused_in_every_dialect_and_in_every_case(name: str) -> None:
    servers = read_json("mcp.json", {"mcpServers": {name: {"command": "x"}}})
    titled = osqr(plugin={"name": name, "version": "1.0.0", "creator": "x", "trust_tier": "personal"})
    for reading in (native(name=name), kernel(name=name), shu(name=name), bundle(name=name), servers, titled):
        assert "reserved" in the_only_error(reading).message


@pytest.mark.parametrize("schema", [{"$ref": "https://example.com/x.json"}, {"$ref": "file:///etc/passwd"}])
def test_a_schema_that_points_outside_itself_is_refused(schema: dict[str, Any]) -> None:
    assert the_only_error(native(config_schema={"properties": {"a": schema}})).path.startswith("config_schema")


def test_an_expression_that_explodes_is_judged_in_linear_time(tmp_path: Path) -> None:
    knob = {"type": "text", "label": "x", "default": "a" * 5000 + "!", "pattern": "^(a+)+$", "binds_to": "config.x"}
    document = {"config_schema": {"properties": {"x": {"type": "string"}}}, "knobs": {"it": knob}}
    base = {"name": "a", "version": "1.0.0", "kaged_api": 1, "description": "x", "command": ["x"], "capabilities": []}
    (tmp_path / "kaged-plugin.yaml").write_text(json.dumps(base | document))

    assert answer_within_limits(tmp_path) == "knob_default"


STEERING = ["red\x1b[31m", "two\nlines", "bell\x07", "flip\u202etxt", "iso\u2066x", "nel\x85x", "ls\u2028x", "c1\x9bx"]


@pytest.mark.parametrize("text", STEERING)
def test_a_title_or_a_person_cannot_steer_the_screen_in_any_dialect(text: str) -> None:
    plugin = {"name": "Coach", "version": "1.0.0", "creator": "x", "trust_tier": "personal"}
    tool = {"name": "x", "title": text, "inputSchema": {}}
    readings = {
        "title": native(title=text),
        "author": native(author=text),
        "tools[0].title": native(tools=[{"name": "x", "title": text}]),
        "owner": kernel(owner=text),
        "display_name": shu(display_name=text),
        "plugin.name": osqr(plugin=plugin | {"name": f"Coach {text}"}),
        "plugin.creator": osqr(plugin=plugin | {"creator": text}),
        "capabilities.tools[0].title": osqr(capabilities={"tools": [tool]}),
        "author.name": bundle(author={"name": text}),
    }
    for path, reading in readings.items():
        error = the_only_error(reading)
        assert (error.path, error.code) == (path, "control_character")
        assert str(error).isprintable()
    assert the_only_error(kaged(author=text)).path == "author"
    assert the_only_error(read_json("mcp.json", {"mcpServers": {f"s {text}": {"command": "x"}}})).code == (
        "control_character"
    )


@pytest.mark.parametrize("text", STEERING)
def test_a_tool_cannot_be_named_to_steer_the_screen(text: str) -> None:
    for reading in (
        native(tools=[{"name": text}]),
        kaged(tools=[{"name": text, "description": "x", "parameters_schema": {}}]),
        osqr(capabilities={"tools": [{"name": text, "inputSchema": {}}]}),
        bundle(tools=[{"name": text}]),
        shu(entrypoints={text: "a.b:C"}),
    ):
        assert all(str(error).isprintable() for error in reading.errors)
        assert len(reading.errors) == 1


@pytest.mark.parametrize("text", STEERING)
def test_what_a_description_holds_never_reaches_a_screen_raw(text: str) -> None:
    manifest = sound(
        native(
            description=text,
            tools=[{"name": "x", "description": text}],
            behaviour={"style": text, "trigger_topics": [text], "can_initiate": True},
            secrets=[text],
            identities=[{"provider": text, "scopes": [text]}],
            allowed_actions=[text],
            resources=[{"uri": "x", "name": text}],
            prompts=[{"name": text}],
            runtime={"command": [f"./{text}"]},
        )
    )
    shown = [line for section in consent_sections(manifest) for line in (*section.lines, *section.alarming)]
    warnings = native(runtime={"command": [f"./{text}"]}).warnings

    assert all(line.isprintable() for line in shown)
    assert all(str(warning).isprintable() for warning in warnings)
    assert sound(read_bytes("paddock.yaml", to_yaml(manifest).encode())) == manifest


@pytest.mark.parametrize("name", FILE_NAMES)
@settings(max_examples=60)
@given(data=st.binary(max_size=200))
def test_no_bytes_at_all_raise_anything_but_a_refusal(name: str, data: bytes) -> None:
    try:
        reading = read_bytes(name, data)
    except Invalid as refused:
        assert refused.problems
        assert all(str(problem).isprintable() for problem in refused.problems)
    else:
        assert reading.errors


@pytest.mark.parametrize(
    "form", ["paddock", "kaged", "kernel", "shu", "osqr", "mcpb", "mcp-server", "mcp-servers", "vscode-mcp"]
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_known_field_of_any_shape_is_reported_and_never_trips_the_reader(form: str, data: st.DataObject) -> None:
    document = data.draw(misshapen_form(form))
    names = {
        "paddock": "paddock.json",
        "kaged": "kaged-plugin.json",
        "mcp-servers": "mcp.json",
        "vscode-mcp": "mcp.json",
    }
    text = json.dumps(document)

    try:
        reading = read_bytes(names.get(form, "manifest.json"), text.encode())
    except Invalid as refused:
        assert [problem.code for problem in refused.problems] == ["number"]
    else:
        assert all(str(problem).isprintable() for problem in (*reading.errors, *reading.warnings))
