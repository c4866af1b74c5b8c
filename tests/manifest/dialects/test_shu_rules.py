"""Shu's manifest: identities instead of credentials, and Python that is read and never run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.manifest.documents import shu, sound, the_only_error, warned

from paddock.core.errors import Invalid, Problem
from paddock.manifest.model import IdentityRequirement, OperationAuth
from paddock.manifest.read import read_bytes, read_package
from paddock.manifest.rules.field_rules import AUTH_FIELDS

PLUGIN = """
import os
open({marker!r}, "w").close()

class Plugin:
    def get_schema(self):
        {schema}

    async def execute(self, params, context, host):
        return {{}}
"""


def package(folder: Path, schema: str) -> Path:
    (folder / "manifest.yaml").write_text("name: a\nversion: 1.0.0\nentrypoints: {a: 'pkg.plugin:Plugin'}\n")
    (folder / "pkg").mkdir()
    (folder / "pkg" / "plugin.py").write_text(PLUGIN.format(schema=schema, marker=str(folder / "was-run")))
    return folder


@pytest.mark.req("S-28", "authentication fields refused")
@pytest.mark.parametrize("field", sorted(AUTH_FIELDS))
def test_parameters_that_ask_for_credentials_are_refused(field: str) -> None:
    error = the_only_error(shu(params_schema={"type": "object", "properties": {field: {"type": "string"}}}))

    assert (error.path, error.code) == (f"params_schema.properties.{field}", "auth_field")
    assert "op_auth" in error.hint


@pytest.mark.req("S-28", "authentication fields refused")
def test_credentials_deep_inside_the_parameters_are_found_too() -> None:
    inner = {"anyOf": [{"properties": {"options": {"properties": {"access_token": {}}}}}]}

    assert the_only_error(shu(params_schema=inner)).code == "auth_field"


@pytest.mark.parametrize(("dialect", "refused"), [("native", True), ("shu", True), ("kernel", False)])
def test_credentials_asked_for_in_a_schema_file_keep_the_plugin_from_being_enabled(
    tmp_path: Path, dialect: str, refused: bool
) -> None:
    schema = {"properties": {"who": {"properties": {"access_token": {"type": "string"}}}}}
    (tmp_path / "in.json").write_text(json.dumps(schema))
    # The same file may describe an answer, which is no parameter.
    tools = [{"name": "b", "output_schema": "in.json"}, {"name": "a", "input_schema": "in.json"}]
    document = {"paddock": 1, "name": "x", "version": "1.0.0", "description": "x", "dialect": dialect, "tools": tools}
    (tmp_path / "paddock.yaml").write_text(json.dumps(document | {"runtime": {"command": ["x"]}}))

    found = [warning.path for warning in read_package(tmp_path).warnings if warning.code == "auth_field"]

    assert found == (["a.input_schema.properties.who.properties.access_token"] if refused else [])


@pytest.mark.req("S-28", "authentication fields refused")
def test_credentials_asked_for_in_the_source_are_refused_without_running_it(tmp_path: Path) -> None:
    folder = package(tmp_path, 'return {"type": "object", "properties": {"user_email": {"type": "string"}}}')

    error = the_only_error(read_package(folder))

    assert (error.code, error.path) == ("auth_field", "entrypoints.a.get_schema.properties.user_email")
    assert not (folder / "was-run").exists()


def test_a_literal_schema_in_the_source_is_known_before_the_plugin_ever_runs(tmp_path: Path) -> None:
    folder = package(tmp_path, 'return {"type": "object", "properties": {"since_hours": {"type": "integer"}}}')

    (spec,) = sound(read_package(folder)).callables

    assert spec.input_schema == {"type": "object", "properties": {"since_hours": {"type": "integer"}}}
    assert not (folder / "was-run").exists()


@pytest.mark.parametrize("schema", ["return self.schema()", "return {**BASE}", "x = {}\n        return x", "pass"])
def test_a_schema_that_is_computed_waits_until_the_plugin_runs(tmp_path: Path, schema: str) -> None:
    reading = read_package(package(tmp_path, schema))

    assert sound(reading).callables[0].input_schema is None
    assert reading.warnings == ()


def test_a_source_that_is_not_python_is_reported_at_its_entrypoint(tmp_path: Path) -> None:
    error = the_only_error(read_package(package(tmp_path, "return {")))

    assert (error.path, error.code) == ("entrypoints.a", "entrypoint")
    assert "pkg/plugin.py is not Python" in error.message


@pytest.mark.req("S-28", "required_identities")
@pytest.mark.req("S-28", "op_auth")
def test_identities_and_operations_say_whose_account_is_used() -> None:
    manifest = sound(
        shu(
            required_identities=[{"provider": "google", "mode": "user", "scopes": ["mail.read"], "optional": True}],
            op_auth={
                "digest": {
                    "provider": "google",
                    "mode": "domain_delegate",
                    "scopes": ["mail.read"],
                    "subject_hint": "identity:google_email",
                    "secrets": {"api_key": {}},
                }
            },
        )
    )

    assert manifest.identities == (IdentityRequirement("google", "user", ("mail.read",), True),)
    assert manifest.operation_auth == (
        OperationAuth(
            "digest",
            "google",
            "domain_delegate",
            ("mail.read",),
            "identity:google_email",
            {"api_key": "system_or_user"},
        ),
    )
    assert manifest.secrets == ("api_key",)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"required_identities": [{"mode": "user"}]}, "required_identities[0].provider"),
        ({"required_identities": [{"provider": "x", "mode": "root"}]}, "required_identities[0].mode"),
        ({"op_auth": {"a": {"mode": "root"}}}, "op_auth.a.mode"),
        ({"op_auth": {"a": {"secrets": {"k": {"allowed_scope": "all"}}}}}, "op_auth.a.secrets.k.allowed_scope"),
        ({"op_auth": []}, "op_auth"),
        ({"entrypoints": {}}, "entrypoints"),
        ({"entrypoints": {"a": "pkg.plugin"}}, "entrypoints.a"),
        ({"capabilities": ["http", "root"]}, "capabilities[1]"),
        ({"default_feed_op": "a", "allowed_feed_ops": ["b"]}, "default_feed_op"),
        ({"name": None}, "name"),
        ({"version": "1"}, "version"),
    ],
)
def test_a_declaration_that_does_not_hold_is_refused_where_it_stands(changes: dict[str, Any], path: str) -> None:
    assert the_only_error(shu(**changes)).path == path


def test_cursors_come_with_the_knowledge_base() -> None:
    assert [str(one) for one in sound(shu(capabilities=["kb", "rate_limit"])).capabilities] == [
        "host:kb",
        "host:rate",
        "host:cursor",
    ]


def test_an_unknown_field_is_a_warning() -> None:
    assert warned(shu(entrypoint={"a": "b"})) == ["unknown_field"]


def refusal(text: str) -> Problem:
    with pytest.raises(Invalid) as caught:
        read_bytes("manifest.py", text.encode())
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("VERSION", "a variable"),
        ("make()", "a call"),
        ("f'{x}'", "an f-string"),
        ("'1' + '2'", "an operation"),
        ("'a' if x else 'b'", "a condition"),
        ("os.environ['V']", "an element"),
        ("os.name", "an attribute"),
        ("{1, 2}", "a set"),
        ("[*a]", "an unpacking"),
        ("lambda: 1", "a function"),
        ("[x for x in y]", "an expression"),
    ],
)
def test_a_computed_value_is_refused_with_its_line_and_its_place(value: str, what: str) -> None:
    problem = refusal(f'import os\n\nPLUGIN_MANIFEST = {{\n  "name": "a",\n  "version": {value},\n}}\n')

    assert (problem.code, problem.line) == ("computed", 5)
    assert problem.path.startswith("version")
    assert what in problem.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("PLUGIN_MANIFEST = {}\nPLUGIN_MANIFEST = {'name': 'b'}", 2),
        ("PLUGIN_MANIFEST = {}\nPLUGIN_MANIFEST['name'] = 'b'", 2),
        ("PLUGIN_MANIFEST = {}\nPLUGIN_MANIFEST.update(name='b')", 2),
        ("PLUGIN_MANIFEST = {}\nif True:\n    PLUGIN_MANIFEST = {}", 3),
        ("PLUGIN_MANIFEST = {}\nPLUGIN_MANIFEST |= {}", 2),
        ("PLUGIN_MANIFEST = {}\ndel PLUGIN_MANIFEST", 2),
        ("PLUGIN_MANIFEST = {**{'a': 1}}", 1),
        ("PLUGIN_MANIFEST = {name: 'b'}", 1),
        ("PLUGIN_MANIFEST = dict(name='a')", 1),
        ("A = PLUGIN_MANIFEST = {}", 1),
    ],
)
def test_a_manifest_that_running_would_change_is_refused(text: str, line: int) -> None:
    problem = refusal(text)

    assert (problem.code, problem.line) == ("computed", line)


def test_a_manifest_is_never_executed(tmp_path: Path) -> None:
    marker = tmp_path / "was-run"
    (tmp_path / "manifest.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n"
        "PLUGIN_MANIFEST: dict = {'name': 'a', 'version': '1.0.0', 'entrypoints': {'a': 'b.c:D'},\n"
        "  'secrets': ('x', 'y'), 'description': 'two '\n  'parts'}\n"
        "def later():\n    return PLUGIN_MANIFEST\n"
    )
    manifest = sound(read_package(tmp_path))

    assert (manifest.name, manifest.secrets, manifest.description) == ("a", ("x", "y"), "two parts")
    assert not marker.exists()


def test_mistakes_in_a_python_manifest_know_their_lines() -> None:
    reading = read_bytes(
        "manifest.py", b"PLUGIN_MANIFEST = {\n 'name': 'a',\n 'version': 'x',\n 'entrypoints': {\n  'a': 'b'}}"
    )

    assert [(error.path, error.line) for error in reading.errors] == [("version", 3), ("entrypoints.a", 5)]
