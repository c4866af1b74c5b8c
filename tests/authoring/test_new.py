"""`paddock plugin new`: what it makes is sound, passes its own tests and the contract of its kind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.authoring.workbench import findings, made

import paddock
from fixtures.commands import Paddock
from paddock.authoring.checks.plugin_under_test import CheckVerdict
from paddock.authoring.scaffold import create_plugin_folder, module_name
from paddock.authoring.template_catalog import TEMPLATES, PluginTemplate, find_template
from paddock.core.errors import CallerError, Conflict
from paddock.manifest.read import read_package

SOURCE = str(Path(paddock.__file__).parents[1])
templates = pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: one.folder)


def needs_programs(template: PluginTemplate) -> None:
    for program in {"typescript": ["node"], "shell": ["bash", "jq"]}.get(template.language, []):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


@templates
def test_what_is_made_is_sound_without_a_warning(tmp_path: Path, template: PluginTemplate) -> None:
    reading = read_package(made(tmp_path / "new", template.kind, template.language, "my-first"))

    assert (reading.errors, reading.warnings) == ((), ())
    assert reading.single().name == "my-first"
    assert "__" not in reading.single().description


@templates
def test_what_is_made_passes_its_own_tests(tmp_path: Path, template: PluginTemplate) -> None:
    needs_programs(template)
    folder = made(tmp_path / "new", template.kind, template.language, "my-first")
    program = [sys.executable if word == "python3" else word for word in template.test_command]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"}

    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["plugin", "shu"])
def test_the_line_that_runs_its_tests_needs_no_environment(tmp_path: Path, kind: str) -> None:
    said = Paddock(tmp_path / "home").quickly("plugin", "new", "my-first", "--kind", kind, tmp_path / "new")
    line = next(line for line in said.err.splitlines() if "unittest" in line).partition("→ ")[2]

    environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}  # nobody activated anything
    done = subprocess.run(["/bin/sh", "-c", line], env=environment, capture_output=True, text=True, timeout=60)

    assert sys.executable in line and "which that Python has" in said.err
    assert done.returncode == 0, done.stdout + done.stderr


@templates
async def test_what_is_made_keeps_the_contract_of_its_kind_in_a_real_cage(
    tmp_path: Path, template: PluginTemplate
) -> None:
    needs_programs(template)
    folder = made(tmp_path / "new", template.kind, template.language, "my-first")

    found = await findings(folder, tmp_path / "home")

    assert [one for one in found.values() if one.verdict is CheckVerdict.FAIL] == []
    assert any(check.startswith("call ") and one.verdict is CheckVerdict.PASS for check, one in found.items())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "thesis.txt").write_text("years of work")

    with pytest.raises(Conflict, match="nothing in it was changed"):
        made(tmp_path / "new")

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["", "1st", "a b", "a;rm -rf", "x'y", "päddock", "host", "a__b", "../up", "a" * 65])
def test_a_name_that_no_plugin_can_have_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(CallerError) as refused:
        made(tmp_path / "new", name=name)

    assert refused.value.error_code == "new.bad_name"
    assert not (tmp_path / "new").exists()


def test_a_combination_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(CallerError) as refused:
        find_template("agent", "shell")
    assert refused.value.hint == "agent is there in: python; in shell there is: plugin"
    with pytest.raises(CallerError, match="no kind of plugin"):
        find_template("persona", "python")


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("Letter.Answer", "letter_answer"),
        ("my-tool", "my_tool"),
        ("json", "json_plugin"),
        ("class", "class_plugin"),
        ("paddock_sdk", "paddock_sdk_plugin"),
    ],
)
def test_a_package_is_named_so_that_it_hides_no_other(name: str, module: str) -> None:
    assert module_name(name) == module


def test_a_tool_called_like_a_module_of_python_runs_its_own_code(tmp_path: Path) -> None:
    files = create_plugin_folder(find_template("tool", "python"), "json", tmp_path / "new")

    assert "json_plugin/tool.py" in files
    assert "from json_plugin.tool import count" in (tmp_path / "new" / "test_tool.py").read_text()


@pytest.mark.slow
def test_the_built_typescript_is_what_its_source_gives(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = made(tmp_path / "new", "plugin", "typescript")
    before = {name: (folder / name).read_text() for name in ("main.js", "plugin.js")}
    for name in before:
        (folder / name).unlink()

    for step in (["install", "--no-audit", "--prefer-offline"], ["run", "build"]):  # as its README says
        done = subprocess.run(["npm", *step], cwd=folder, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr

    assert {name: (folder / name).read_text() for name in before} == before
