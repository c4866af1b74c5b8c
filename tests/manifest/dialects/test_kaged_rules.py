"""Every rule of the kaged manifest, each broken by itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import KAGED, changed, kaged, read_yaml, sound, the_only_error, warned

from paddock.manifest.model import CallableForm, CommandRuntime, Timing
from paddock.manifest.read import read_bytes


@pytest.mark.req("G-16", "schema")
@pytest.mark.parametrize("document", [[], "text", 5, [KAGED]])
def test_a_manifest_that_is_no_mapping_is_refused(document: Any) -> None:
    assert "expected" in the_only_error(read_yaml("kaged-plugin.yaml", document)).message


@pytest.mark.req("G-16", "schema")
def test_a_manifest_yaml_with_kaged_api_is_read_as_kaged() -> None:
    assert sound(read_yaml("manifest.yaml", KAGED)).dialect == "kaged"


@pytest.mark.req("G-16", "required fields")
@pytest.mark.parametrize("field", ["name", "version", "kaged_api", "description", "command", "capabilities"])
def test_each_required_field_is_missed_by_name(field: str) -> None:
    error = the_only_error(kaged(**{field: None}))

    assert (error.path, error.line) == (field, 1)
    assert f"missing field '{field}'" in error.message


@pytest.mark.req("G-16", "name slug")
@pytest.mark.parametrize("name", ["memory", "memory-markdown", "m", "m2", "a--b", "a-", "a" * 64])
def test_a_slug_is_a_name(name: str) -> None:
    assert sound(kaged(name=name)).name == name


@pytest.mark.req("G-16", "name slug")
@pytest.mark.parametrize(
    "name",
    ["Memory", "memory_x", "2memory", "-memory", "me mory", "memory\n", "a.b", "a" * 65, "mémoire", "a__b", "a:b"],
)
def test_what_is_no_slug_is_no_name(name: str) -> None:
    error = the_only_error(kaged(name=name))

    assert error.path == "name"
    assert error.hint


@pytest.mark.req("G-16", "name slug")
@pytest.mark.parametrize("name", ["kaged", "paddock", "system", "host", "mcp"])
def test_reserved_names_are_refused(name: str) -> None:
    assert "reserved" in the_only_error(kaged(name=name)).message


@pytest.mark.req("G-16", "semver")
@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0.0", "01.0.0", "latest", "1.0.0\n", ""])
def test_a_version_that_is_not_semantic_is_refused(version: str) -> None:
    assert the_only_error(kaged(version=version)).path == "version"


@pytest.mark.req("G-16", "semver")
def test_an_unquoted_version_that_reads_as_a_number_is_refused_with_the_way_out() -> None:
    error = the_only_error(kaged(version=1.0))

    assert (error.path, error.line) == ("version", 2)
    assert "quotes" in error.hint


@pytest.mark.req("G-16", "semver")
@pytest.mark.parametrize("version", ["0.1.0", "1.0.0-beta.1", "1.0.0+build.5"])
def test_a_semantic_version_is_kept(version: str) -> None:
    assert sound(kaged(version=version)).version == version


@pytest.mark.req("G-16", "api version")
@pytest.mark.parametrize("api", [2, 0, "1", 1.5, True])
def test_an_api_version_that_this_host_does_not_speak_is_refused(api: Any) -> None:
    assert the_only_error(kaged(kaged_api=api)).path == "kaged_api"


@pytest.mark.req("G-16", "description length")
def test_a_description_has_at_most_200_characters() -> None:
    assert len(sound(kaged(description="x" * 200)).description) == 200
    assert the_only_error(kaged(description="x" * 201)).path == "description"
    assert the_only_error(kaged(description="")).path == "description"


@pytest.mark.req("G-16", "command")
@pytest.mark.parametrize("command", [[], "python3 main.py", [5], [""], {"argv": ["x"]}])
def test_a_command_is_a_list_of_words_with_a_program_first(command: Any) -> None:
    assert the_only_error(kaged(command=command)).path.startswith("command")


@pytest.mark.req("G-16", "command")
def test_an_empty_argument_is_an_argument() -> None:
    assert sound(kaged(command=["echo", ""])).runtime == CommandRuntime(("echo", ""))


@pytest.mark.req("G-20", "ours cannot be overridden")
@pytest.mark.req("G-16", "env")
@pytest.mark.parametrize("name", ["KAGED_PLUGIN_NAME", "KAGED_PLUGIN_DIR", "KAGED_API_VERSION", "PADDOCK_PLUGIN_NAME"])
def test_variables_that_the_host_controls_cannot_be_set(name: str) -> None:
    error = the_only_error(kaged(env={name: "x"}))

    assert (error.path, error.code) == (f"env.{name}", "env_protected")


@pytest.mark.req("G-16", "env")
@pytest.mark.parametrize("env", [{"A B": "x"}, {"1A": "x"}, {"KAGED_PLUGIN_NAME\n": "x"}, {"A": 5}, ["A=1"]])
def test_env_maps_names_to_text(env: Any) -> None:
    assert the_only_error(kaged(env=env)).path.startswith("env")


@pytest.mark.req("G-16", "env")
def test_a_plugin_may_override_other_variables_of_the_host() -> None:
    assert sound(kaged(env={"PATH": "/opt/bin", "HOME": "/x"})).runtime == CommandRuntime(
        ("python3", "main.py"), env={"PATH": "/opt/bin", "HOME": "/x"}
    )


@pytest.mark.req("G-16", "capabilities")
def test_each_bad_capability_is_reported_under_its_own_index() -> None:
    reading = kaged(capabilities=["read:fs:/opt/data", "read:fs:data", "fly:to:moon", 5])

    assert [error.path for error in reading.errors] == ["capabilities[1]", "capabilities[2]", "capabilities[3]"]


@pytest.mark.req("G-16", "capabilities")
def test_asking_for_the_network_and_for_none_contradicts_itself() -> None:
    error = the_only_error(kaged(capabilities=[{"net": []}, "net:api.example.com:443"]))

    assert (error.path, error.code) == ("capabilities", "capability_contradiction")


@pytest.mark.req("G-16", "capabilities")
def test_a_capability_that_reaches_very_far_is_warned_about_and_so_is_one_listed_twice() -> None:
    reading = kaged(capabilities=["net:*", "read:fs:/", "storage:read", "kaged:storage:read"])

    assert warned(reading) == ["capability_broad", "capability_broad", "capability_twice"]
    assert len(sound(reading).capabilities) == 3


@pytest.mark.req("G-16", "timeout ranges")
@pytest.mark.parametrize(
    ("field", "low", "high"),
    [("shutdown_timeout_sec", 1, 30), ("health_interval_sec", 5, 300), ("hook_timeout_sec", 1, 60)],
)
def test_a_timeout_outside_its_range_is_refused(field: str, low: int, high: int) -> None:
    for good in (low, high):
        assert sound(kaged(**{field: good}))
    for bad in (low - 1, high + 1, "5", 1.5):
        assert the_only_error(kaged(**{field: bad})).path == field


@pytest.mark.req("G-16", "timeout ranges")
def test_timeouts_have_their_documented_defaults() -> None:
    assert sound(kaged()).timing == Timing(shutdown=5, health_interval=30, hook=10)


def tool(name: Any = "retain", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "Does it.", "parameters_schema": {"type": "object"}} | more


@pytest.mark.req("G-16", "tool naming")
@pytest.mark.parametrize("name", ["Retain", "memory.retain", "retain-it", "1retain", "_retain", "retain\n", "a" * 65])
def test_a_tool_is_named_by_one_lowercase_segment(name: str) -> None:
    error = the_only_error(kaged(tools=[tool(name)]))

    assert (error.path, error.code) == ("tools[0].name", "tool_name")


@pytest.mark.req("G-16", "tool naming")
def test_two_tools_of_one_name_are_refused_at_the_second() -> None:
    error = the_only_error(kaged(tools=[tool(), tool()]))

    assert (error.path, error.code) == ("tools[1].name", "duplicate_name")


@pytest.mark.req("G-16", "tool naming")
@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"description": "x", "parameters_schema": {}}, "tools[0].name"),
        ({"name": "x", "parameters_schema": {}}, "tools[0].description"),
        ({"name": "x", "description": "x"}, "tools[0].parameters_schema"),
        (tool(parameters_schema={"type": "objekt"}), "tools[0].parameters_schema.type"),
        (tool(parameters_schema={"$ref": "https://example.com/s.json"}), "tools[0].parameters_schema"),
        (tool(effects=["fly"]), "tools[0].effects[0]"),
        (tool(timeout_sec=901), "tools[0].timeout_sec"),
    ],
)
def test_a_tool_needs_its_name_description_and_a_sound_schema(entry: dict[str, Any], path: str) -> None:
    assert the_only_error(kaged(tools=[entry])).path.startswith(path)


@pytest.mark.req("G-16", "hook membership")
@pytest.mark.parametrize("hook", ["on_session_end", "pre-compact", "PRE_COMPACT", ""])
def test_an_unknown_hook_is_refused_with_the_known_ones(hook: str) -> None:
    error = the_only_error(kaged(hooks=["pre_compact", hook]))

    assert error.path == "hooks[1]"
    assert "on_session_idle" in error.hint


@pytest.mark.req("G-16", "role membership")
def test_an_unknown_role_is_refused_with_the_known_ones() -> None:
    error = the_only_error(kaged(roles=["overlord"]))

    assert error.path == "roles[0]"
    assert "compactor" in error.hint


@pytest.mark.req("G-16", "role membership")
def test_a_plugin_with_hooks_observes_unless_it_says_otherwise() -> None:
    assert sound(kaged(hooks=["post_compact"])).roles == ("observer",)
    assert sound(kaged()).roles == ()


@pytest.mark.req("G-16", "role consistency")
def test_a_compactor_must_subscribe_to_compaction() -> None:
    assert the_only_error(kaged(roles=["compactor"], hooks=["post_compact"])).code == "role_without_hook"
    assert sound(kaged(roles=["compactor"], hooks=["pre_compact"])).roles == ("compactor",)


@pytest.mark.req("G-12", "disjoint")
@pytest.mark.req("G-16", "config disjointness")
def test_a_field_on_both_sides_of_the_config_split_is_refused() -> None:
    both = {"type": "object", "properties": {"token": {"type": "string"}, "other": {}}}
    error = the_only_error(kaged(config_schema=both, system_config_schema={"properties": {"token": {}}}))

    assert (error.path, error.code) == ("system_config_schema.properties.token", "config_not_disjoint")


@pytest.mark.req("G-16", "config disjointness")
@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": ["object", "null"]}, {"type": 5}, []])
def test_a_configuration_is_described_by_a_schema_for_an_object(schema: Any) -> None:
    assert the_only_error(kaged(config_schema=schema)).path.startswith("config_schema")


@pytest.mark.req("G-16", "method naming")
@pytest.mark.parametrize("name", ["presets", "presets.List", "a.b.c.d.e", "presets..list", ".list", "a-b.c", "a.b\n"])
def test_a_method_is_two_to_four_lowercase_segments(name: str) -> None:
    error = the_only_error(kaged(methods=["presets.list", name]))

    assert (error.path, error.code) == ("methods[1]", "method_name")


@pytest.mark.req("G-16", "method naming")
def test_methods_and_notifications_are_declared_once() -> None:
    reading = kaged(methods=["a.b", "a.b"], notifications=["c.d", "c.d"])

    assert sorted(error.path for error in reading.errors) == ["methods[1]", "notifications[1]"]


@pytest.mark.req("G-16", "method naming")
def test_a_method_may_carry_schemas_for_both_sides() -> None:
    method = {"name": "presets.list", "params_schema": {"type": "object"}, "result_schema": True, "effects": []}
    (spec,) = sound(kaged(methods=[method])).callables

    assert (spec.name, spec.form, spec.input_schema, spec.output_schema) == (
        "presets.list",
        CallableForm.METHOD,
        {"type": "object"},
        {},
    )


@pytest.mark.req("G-16", "reserved methods")
@pytest.mark.parametrize("name", ["kaged.storage.exec", "system.ping", "paddock.anything"])
@pytest.mark.parametrize("field", ["methods", "notifications"])
def test_a_method_in_a_reserved_namespace_is_refused(field: str, name: str) -> None:
    error = the_only_error(kaged(**{field: [name]}))

    assert (error.path, error.code) == (f"{field}[0]", "method_name")
    assert "reserved" in error.message


def test_a_field_that_nobody_knows_is_warned_about_with_the_one_that_was_meant() -> None:
    reading = read_bytes("kaged-plugin.yaml", b"hook: [pre_compact]\n" + _text(KAGED))
    (warning,) = [one for one in reading.warnings if one.code == "unknown_field"]

    assert (warning.path, warning.line, warning.hint) == ("hook", 1, "did you mean 'hooks'?")


def test_a_name_that_is_also_a_built_in_namespace_is_warned_about() -> None:
    assert warned(kaged(name="shell")) == ["name_shadows_built_in"]


def _text(document: dict[str, Any]) -> bytes:
    import yaml

    return yaml.safe_dump(changed(document)).encode()
