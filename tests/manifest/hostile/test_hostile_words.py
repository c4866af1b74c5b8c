"""Names that pass for others, schemas that point elsewhere, and texts that would steer a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import bundle, kaged, kernel, native, osqr, read_json, shu, sound, the_only_error

from paddock.manifest.consent_text import consent_sections
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.read import read_bytes

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
            identities=[{"provider": text, "scopes": [text]}],
            allowed_actions=[text],
            resources=[{"uri": "x", "name": text}],
            prompts=[{"name": text}],
            runtime={"command": [f"./{text}"]},
        )
    )
    shown = [line for section in consent_sections(manifest) for line in (*section.lines, *section.alarming)]
    warnings = native(runtime={"command": [f"./{text}"]}).warnings
    refusals = native(secrets=[text]).errors

    assert all(line.isprintable() for line in shown)
    assert refusals and all(str(told).isprintable() for told in (*warnings, *refusals))
    assert sound(read_bytes("paddock.yaml", to_yaml(manifest).encode())) == manifest
