"""Whatever somebody puts where a manifest should be gets a clear answer, and nothing outside the package is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.manifest.documents import SOUND_YAML, refusal, sound
from tests.manifest.strategies import misshapen_form

from fixtures.all_cases import all_cases
from paddock.core.errors import Invalid
from paddock.manifest.read import FILE_NAMES, read_bytes, read_file, read_package


@all_cases(
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


@all_cases("name", [name for name in FILE_NAMES if not name.endswith(".py")])
@all_cases("text", ["[]", '"word"', "5", "null", "{}", "[[1]]"])
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


@pytest.mark.parametrize("name", FILE_NAMES)
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
    "form",
    [
        *("paddock", "kaged", "kernel", "shu", "osqr", "mcpb", "mcp-server"),
        *("mcp-servers", "vscode-mcp", "zed-settings", "codex-config"),
    ],
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
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
