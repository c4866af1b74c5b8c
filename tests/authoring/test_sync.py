"""`paddock plugin sync` and `check`: a tool is declared once, by its program, and the manifest repeats it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.authoring.workbench import edit, made

from fixtures.commands import Paddock
from paddock.authoring.declarations.compare import Comparison, compare_declarations
from paddock.authoring.declarations.description import DescribedCallable, ProgramDescription
from paddock.core.ids import PluginName
from paddock.manifest.model import CallableForm, CallableSpec, Dialect, Manifest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECOND_TOOL = '''
@plugin.tool
def shout(text: Annotated[str, {"maxLength": 80}], times: int = 1) -> Greeting:
    """Say it loudly."""
    return {"text": text.upper() * times}


if __name__'''

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    return Paddock(tmp_path / "home")


def tools_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in yaml.safe_load((folder / "paddock.yaml").read_text())["tools"]}


def mistakes(paddock: Paddock, folder: Path) -> list[str]:
    """What `check` says is wrong, as paths and messages."""
    said = json.loads(paddock.quickly("plugin", "check", folder, "--json", code=6).out)
    return [f"{error['path']}: {error['message']}" for error in said["errors"]]


@pytest.mark.req("B-19", "sync writes the manifest")
def test_sync_writes_what_the_types_say_and_leaves_the_rest_as_its_author_wrote_it(
    paddock: Paddock, tmp_path: Path
) -> None:
    folder = made(tmp_path / "new")
    edit(folder / "paddock.yaml", "effects: [read_only]", "effects: [read_only]  # it only answers")
    edit(folder / "main.py", "if __name__", SECOND_TOOL.lstrip())
    edit(folder / "main.py", '"minLength": 1', '"minLength": 2')
    edit(folder / "main.py", '"0.1.0"', '"0.2.0"')
    before = (folder / "paddock.yaml").read_text()
    (folder / "paddock.yaml").chmod(0o640)

    said = paddock.quickly("plugin", "sync", folder)

    after = (folder / "paddock.yaml").read_text()
    assert (folder / "paddock.yaml").stat().st_mode & 0o777 == 0o640
    assert said.out.splitlines() == ["  ~ version 0.1.0 → 0.2.0", "  ~ tools.greet: input_schema", "  + tools.shout"]
    assert "shout declares no effects: it counts as read-only" in said.err
    assert [line for line in before.splitlines() if line not in after.splitlines()] == [
        "version: 0.1.0",
        "        name: { type: string, description: Whom to greet, minLength: 1, examples: [Ann] }",
    ]
    assert tools_of(folder)["greet"]["effects"] == ["read_only"]
    assert tools_of(folder)["shout"] == {
        "name": "shout",
        "description": "Say it loudly.",
        "input_schema": {
            "type": "object",
            "required": ["text"],
            "additionalProperties": False,
            "properties": {"text": {"type": "string", "maxLength": 80}, "times": {"type": "integer", "default": 1}},
        },
        "output_schema": tools_of(folder)["greet"]["output_schema"],
    }
    assert paddock.quickly("plugin", "check", folder).out.startswith("greeter 0.2.0: sound")
    assert paddock.quickly("plugin", "sync", folder).out == "greeter 0.2.0: nothing to change\n"


@pytest.mark.req("B-19", "check fails where they differ")
def test_check_names_every_difference_and_the_command_that_removes_them(paddock: Paddock, tmp_path: Path) -> None:
    folder = made(tmp_path / "new")
    edit(folder / "main.py", "Greet a person.", "Greet one person.")
    edit(folder / "main.py", '"minLength": 1, "examples": ["Ann"]', '"maxLength": 9')
    edit(folder / "paddock.yaml", "  - name: greet", "  - name: wave\n    description: Wave.\n  - name: greet")

    assert mistakes(paddock, folder) == [
        "tools[0]: wave is not served by the program",
        'tools[1].description: is "Greet a person.", and the program says "Greet one person."',
        "tools[1].input_schema.properties.name.minLength: is 1, and the program does not say it",
        'tools[1].input_schema.properties.name.examples: is ["Ann"], and the program does not say it',
        "tools[1].input_schema.properties.name.maxLength: is missing, and the program says 9",
    ]
    assert f"→ paddock plugin sync {folder}" in paddock.quickly("plugin", "check", folder, code=6).err


def compared(written: dict[str, Any], stated: dict[str, Any], name: str = "greeter") -> Comparison:
    """A manifest whose tool has one schema, and a program whose tool has another."""
    spec = CallableSpec("greet", CallableForm.TOOL, "Greet.", input_schema=written)
    manifest = Manifest(PluginName("greeter"), "1.0.0", Dialect.NATIVE, callables=(spec,))
    program = ProgramDescription(name, "1.0.0", (DescribedCallable("tools", "greet", "Greet.", stated),))
    return compare_declarations(manifest, program, lambda schema: schema)


@pytest.mark.parametrize(
    ("written", "stated", "same"),
    [
        ({"required": ["a", "b"]}, {"required": ["b", "a"]}, True),
        ({"properties": {"a": {"enum": [1, "x"]}}}, {"properties": {"a": {"enum": ["x", 1]}}}, True),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}, True),
        ({"prefixItems": [{"type": "string"}, {}]}, {"prefixItems": [{}, {"type": "string"}]}, False),
        ({"default": 1}, {"default": True}, False),
        ({"examples": ["a", "b"]}, {"examples": ["b", "a"]}, False),
    ],
)
def test_only_what_means_the_same_counts_as_the_same(
    written: dict[str, Any], stated: dict[str, Any], same: bool
) -> None:
    assert (not compared(written, stated).problems) is same


def test_a_program_of_another_name_is_not_written_into_the_manifest() -> None:
    found = compared({}, {}, "other")
    assert [(problem.path, problem.code) for problem in found.refusals] == [("name", "sync.name")]
    assert [problem.code for problem in found.problems] == ["sync.name"]


@needs_node
@pytest.mark.req("B-19", "sync writes the manifest")
def test_the_schemas_of_typescript_are_its_declaration_too(paddock: Paddock, tmp_path: Path) -> None:
    folder = made(tmp_path / "new", language="typescript")
    edit(folder / "plugin.js", "minLength: 1", "minLength: 3")
    edit(folder / "plugin.js", "Greet a person.", "Greet one person.")
    edit(folder / "plugin.js", "0.1.0", "0.1.1")

    found = mistakes(paddock, folder)
    paddock.quickly("plugin", "sync", folder)

    assert found == [
        "version: is 0.1.0, and the program states 0.1.1",
        'tools[0].description: is "Greet a person.", and the program says "Greet one person."',
        "tools[0].input_schema.properties.name.minLength: is 1, and the program says 3",
        "package.json: version: is 0.1.0, and the version of the plugin is 0.1.1",
    ]
    assert tools_of(folder)["greet"]["input_schema"]["properties"]["name"]["minLength"] == 3
    assert json.loads((folder / "package.json").read_text())["version"] == "0.1.1"
    paddock.quickly("plugin", "check", folder)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("def add(a, b) -> int:", "no type is stated for a, b"),
        ("def add(a: int, b: complex) -> int:", "add, parameter b: complex has no JSON form"),
        ("def add(params, context):", "add states no types for its parameters"),
    ],
)
def test_a_tool_without_usable_types_is_refused_with_words_and_nothing_is_written(
    paddock: Paddock, tmp_path: Path, tool: str, words: str
) -> None:
    folder = made(tmp_path / "new")
    edit(folder / "main.py", "if __name__", f'@plugin.tool\n{tool}\n    """Add."""\n    return 1\n\n\nif __name__')
    before = (folder / "paddock.yaml").read_text()

    said = paddock.quickly("plugin", "sync", folder, code=7 if "no type is" in words else 6)

    assert words in said.err
    assert (folder / "paddock.yaml").read_text() == before


def test_a_program_without_our_sdk_keeps_its_tools_in_the_manifest(paddock: Paddock, tmp_path: Path) -> None:
    folder = made(tmp_path / "new")
    refusal = '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}'
    (folder / "main.py").write_text(f"input()\nprint('{refusal}', flush=True)\ninput()\n")

    assert "sound" in paddock.quickly("plugin", "check", folder).out
    assert "its manifest is their declaration" in paddock.quickly("plugin", "sync", folder, code=6).err


def test_a_program_that_does_not_start_fails_the_check_unless_it_may_miss_what_it_requests(
    paddock: Paddock, tmp_path: Path
) -> None:
    folder = made(tmp_path / "new")
    (folder / "main.py").write_text("raise SystemExit('out of coffee')")

    refused = paddock.quickly("plugin", "check", folder, "--json", code=6).json
    assert [one["code"] for one in refused["errors"]] == ["check.not_started"]
    assert "out of coffee" in refused["errors"][0]["message"]
    assert "out of coffee" in paddock.quickly("plugin", "sync", folder, code=7).err

    edit(folder / "paddock.yaml", "- net:[]", "- read:fs:/srv")
    said = paddock.quickly("plugin", "check", folder)
    assert "sound" in said.out and "not compared with the program" in said.err and "out of coffee" in said.err
    assert "paddock plugin test" in said.err


@pytest.mark.parametrize("name", ["greeter", "slow-count", "outbox", "broken-clock", "native-notes", "typescript-dice"])
def test_the_manifest_of_an_example_is_what_its_program_says(paddock: Paddock, name: str) -> None:
    if name == "typescript-dice" and shutil.which("node") is None:
        pytest.skip("node is not installed")
    said = paddock.quickly("plugin", "check", EXAMPLES / name)
    assert "sound" in said.out and "not compared" not in said.err
