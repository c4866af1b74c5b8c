"""The schemas people can download are the ones that decide, and the examples beside them are sound."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.manifest.documents import BUNDLE, KAGED, KERNEL, NATIVE, OSQR, SEEDS, SHU
from tests.manifest.strategies import misshapen_form

from paddock.core.schema.compile import check_schema, compile_trusted
from paddock.manifest.read import SCHEMA_DIRECTORY, dialect_schema, read_bytes

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "reference" / "schemas"
PAGE = (ROOT / "docs" / "reference" / "manifests.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^Example, `([^`]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)

SOUND: dict[str, tuple[str, dict[str, Any]]] = {
    "paddock": ("paddock.json", NATIVE),
    "kaged": ("kaged-plugin.json", KAGED),
    "kernel": ("manifest.json", KERNEL | {"schemas": {}}),
    "shu": ("manifest.json", SHU),
    "osqr": ("manifest.json", OSQR),
    "mcpb": ("manifest.json", BUNDLE),
    "mcp-servers": ("mcp.json", {"mcpServers": {"it": {"command": "x"}}}),
    "vscode-mcp": ("mcp.json", {"servers": {"it": {"command": "x"}}}),
    "zed-settings": ("settings.json", {"context_servers": {"it": {"command": "x"}}}),
    "codex-config": ("config.json", {"mcp_servers": {"it": {"command": "x"}}}),
    "mcp-server": ("server.json", {"name": "a.b/c", "description": "x", "version": "1.0.0", "packages": []}),
}


@pytest.mark.req("O-31", "published for every dialect")
def test_every_schema_is_published_as_it_is_used() -> None:
    used = {path.name: path.read_bytes() for path in SCHEMA_DIRECTORY.iterdir()}
    published = {path.name: path.read_bytes() for path in PUBLISHED.iterdir()}

    assert published == used


@pytest.mark.parametrize("file", sorted(path.name for path in SCHEMA_DIRECTORY.iterdir()))
def test_every_published_schema_is_sound_and_stands_on_the_page(file: str) -> None:
    schema = json.loads((PUBLISHED / file).read_text(encoding="utf-8"))

    assert check_schema(schema, "") == []
    assert schema["title"]
    assert f"(schemas/{file})" in PAGE


@pytest.mark.parametrize(
    ("name", "text"), EXAMPLES, ids=[f"{name}-{index}" for index, (name, _) in enumerate(EXAMPLES)]
)
def test_every_example_of_the_page_is_sound(name: str, text: str) -> None:
    reading = read_bytes(name, text.encode())
    about_files = {"no_runtime", "program_missing", "fetched_at_start"}

    assert reading.errors == ()
    assert [warning for warning in reading.warnings if warning.code not in about_files] == []


@pytest.mark.req("O-31", "published for every dialect")
def test_the_page_has_an_example_of_every_dialect() -> None:
    forms = {read_bytes(name, text.encode()).form for name, text in EXAMPLES}

    assert forms == set(SOUND)


@pytest.mark.req("O-31", "agrees with the validator")
@pytest.mark.parametrize("form", SOUND)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_document_breaks_the_published_schema_exactly_when_the_reader_reports_its_structure(
    form: str, data: st.DataObject
) -> None:
    name, document = SOUND[form]
    schema = json.loads((PUBLISHED / f"{form}.schema.json").read_text(encoding="utf-8"))
    broken = copy.deepcopy(document)
    changes = data.draw(misshapen_form(form))
    if isinstance(changes, dict):
        broken |= {key: value for key, value in changes.items() if key in schema["properties"]}
    if data.draw(st.booleans()):
        broken.pop(data.draw(st.sampled_from(sorted(broken))))
    text = json.dumps(broken)
    if re.search(r"\d{20}", text) or re.search(r"\\ud[89a-f]", text):
        return  # refused before any schema is asked

    reading = read_bytes(name, text.encode())
    if reading.form != form:
        return  # without the field that tells its dialect it is another kind of file
    structural = {problem.path for problem in dialect_schema(form).errors(broken)}

    assert compile_trusted(schema).is_valid(broken) is not bool(structural)
    assert structural <= {problem.path for problem in reading.errors}
    if structural:
        assert not reading.valid


STATE = {
    "manifest_hash": "sha256:00",
    "state": {
        "plugin_id": "fourth-generation-formula",
        "user_id": "user123",
        "is_active": True,
        "activated_at": "2024-12-01T10:00:00Z",
        "version_pinned": None,
        "workflow_states": {},
    },
    "artifacts": [
        {
            "uri": "pkv://user123/artifacts/manuscript-def456.md",
            "type": "manuscript",
            "created_at": "2024-12-19T15:30:05Z",
            "size_bytes": 89234,
        }
    ],
}


def stored(**workflow: Any) -> dict[str, Any]:
    """A person's entry for the plugin, with the printed workflow in it."""
    entry = copy.deepcopy(STATE)
    state = json.loads((SEEDS / "workflow-state.json").read_text(encoding="utf-8")) | workflow
    entry["state"]["workflow_states"] = {state["workflow_id"]: state}
    return entry


@pytest.mark.req("O-31", "plugin state")
def test_the_printed_workflow_state_is_plugin_state() -> None:
    assert dialect_schema("osqr-plugin-state").errors(stored()) == []
    assert dialect_schema("osqr-plugin-state").errors(STATE) == []


@pytest.mark.req("O-31", "plugin state")
@pytest.mark.parametrize(
    "change",
    [
        {"current_step": -1},
        {"current_step": "47"},
        {"started_at": "yesterday"},
        {"completed": "no"},
        {"accumulated_data": []},
        {"artifact_uri": 5},
        {"total_steps": 1.5},
    ],
)
def test_a_workflow_state_of_another_shape_is_not(change: dict[str, Any]) -> None:
    (problem,) = dialect_schema("osqr-plugin-state").errors(stored(**change))

    assert problem.path.endswith(next(iter(change)))


@pytest.mark.req("O-31", "plugin state")
@pytest.mark.parametrize("field", ["manifest_hash", "state", "artifacts"])
def test_plugin_state_has_all_its_parts(field: str) -> None:
    entry = stored()
    del entry[field]

    assert [problem.path for problem in dialect_schema("osqr-plugin-state").errors(entry)] == [field]


@pytest.mark.parametrize(("field", "value"), [("type", "song"), ("size_bytes", -1), ("created_at", "x"), ("uri", "")])
def test_an_artifact_is_referred_to_by_address_kind_time_and_size(field: str, value: Any) -> None:
    entry = stored()
    entry["artifacts"][0][field] = value

    assert not dialect_schema("osqr-plugin-state").is_valid(entry)
