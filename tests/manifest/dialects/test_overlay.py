"""A manifest that names no program, and the paddock.yaml beside it that does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.manifest.documents import SEEDS, sound, the_only_error

from paddock.manifest.capability import NetworkAccess, NoNetwork, merge_capabilities
from paddock.manifest.model import CommandRuntime, PythonRuntime, RemoteRuntime
from paddock.manifest.read import read_bytes, read_package


@pytest.fixture
def formula(tmp_path: Path) -> Path:
    shutil.copy(SEEDS / "fourth-generation-formula.yaml", tmp_path / "manifest.yaml")
    return tmp_path


def test_without_a_program_it_loads_and_says_why_it_cannot_be_enabled(formula: Path) -> None:
    reading = read_package(formula)

    assert sound(reading).runtime is None
    (warning,) = reading.warnings
    assert (warning.code, warning.path) == ("no_runtime", "runtime")
    assert "paddock.yaml" in warning.hint


@pytest.mark.parametrize(
    ("text", "runtime"),
    [
        ("command: [python3, server.py]\n  protocol: mcp", CommandRuntime(("python3", "server.py"), "mcp")),
        ("url: https://mcp.example/fgf", RemoteRuntime("https://mcp.example/fgf")),
        ("module: 'fgf.server:Server'", PythonRuntime({"fourth-generation-formula": "fgf.server:Server"})),
    ],
)
def test_a_sibling_supplies_the_program(formula: Path, text: str, runtime: object) -> None:
    (formula / "paddock.yaml").write_text(f"runtime:\n  {text}\nstart: lazy\ncapabilities: ['net:[]']\n")

    manifest = sound(read_package(formula))

    assert (manifest.name, manifest.dialect) == ("fourth-generation-formula", "osqr")
    assert (manifest.runtime, manifest.start) == (runtime, "lazy")
    assert manifest.capabilities[-1] == NoNetwork()
    assert len(manifest.capabilities) == 4


def test_a_kernel_manifest_of_any_name_finds_its_program_too(tmp_path: Path) -> None:
    shutil.copy(SEEDS / "email-generate-draft.json", tmp_path / "email_generate_draft.json")
    (tmp_path / "paddock.yaml").write_text("runtime: {command: [python3, draft.py]}\n")

    manifest = sound(read_package(tmp_path))

    assert (manifest.name, manifest.runtime) == ("Email.GenerateDraft", CommandRuntime(("python3", "draft.py")))


def test_mistakes_of_the_sibling_are_reported_with_its_lines(formula: Path) -> None:
    (formula / "paddock.yaml").write_text(
        "runtime:\n  command: [x]\n  url: https://x.example\ncapabilities:\n  - fly\n"
    )

    reading = read_package(formula)

    assert [(error.path, error.line) for error in reading.errors] == [("runtime", 1), ("capabilities[0]", 5)]


def test_a_sibling_with_more_than_a_program_is_refused(formula: Path) -> None:
    (formula / "paddock.yaml").write_text("runtime: {command: [x]}\ntools: []\n")

    assert the_only_error(read_package(formula)).path == "tools"


def test_two_programs_for_one_plugin_are_refused(tmp_path: Path) -> None:
    shutil.copy(SEEDS / "kaged-plugin.yaml", tmp_path / "kaged-plugin.yaml")
    (tmp_path / "paddock.yaml").write_text("runtime: {command: [x]}\n")

    assert the_only_error(read_package(tmp_path)).code == "runtime"


def test_a_program_without_a_manifest_beside_it_is_no_plugin(tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").write_text("runtime: {command: [x]}\n")

    assert the_only_error(read_package(tmp_path)).code == "unknown_dialect"
    assert the_only_error(read_bytes("paddock.yaml", b"runtime: {command: [x]}\n")).code == "unknown_dialect"


def test_a_full_paddock_yaml_stands_by_itself(formula: Path) -> None:
    (formula / "paddock.yaml").write_text("paddock: 1\nname: own\nversion: 1.0.0\ndescription: x\n")

    assert sound(read_package(formula)).name == "own"


def test_what_a_package_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").write_text(
        "paddock: 1\nname: own\nversion: 1.0.0\ndescription: x\nruntime: {command: ['./bin/run']}\n"
        "execute:\n  - {name: a, input_schema: in.json}\n  - {name: b, input_schema: broken.json}\n"
        "  - {name: c, input_schema: bad.json}\n  - {name: d, input_schema: good.json}\n"
    )
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "bad.json").write_text('{"type": "objekt"}')
    (tmp_path / "good.json").write_text("{}")
    (tmp_path / "secret").symlink_to("/etc/passwd")

    warnings = {warning.path.partition(".")[0]: warning.code for warning in read_package(tmp_path).warnings}

    assert warnings["runtime"] == "program_missing"
    assert (warnings["a"], warnings["b"]) == ("schema_missing", "schema_malformed")
    assert "c" in warnings and "d" not in warnings


def test_a_sibling_may_add_capabilities_to_a_plugin_that_names_its_program(tmp_path: Path) -> None:
    shutil.copy(SEEDS / "kaged-plugin.yaml", tmp_path / "kaged-plugin.yaml")
    before = sound(read_package(tmp_path))
    (tmp_path / "paddock.yaml").write_text("capabilities: ['net:api.example.com:443']\n")
    manifest = sound(read_package(tmp_path))

    assert (manifest.runtime, manifest.start) == (before.runtime, before.start)
    assert manifest.capabilities == merge_capabilities(before.capabilities, [NetworkAccess("api.example.com", 443)])

    (tmp_path / "paddock.yaml").write_text("start: lazy\n")
    assert the_only_error(read_package(tmp_path)).message == "adds neither a program nor capabilities"
