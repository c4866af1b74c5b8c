"""What an upgrade changes for the person who agreed to the old version."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import NODEFAULT
from msgspec.structs import fields, replace
from tests.manifest.documents import native, sound

from fixtures.all_cases import all_cases
from paddock.core.ids import PluginName
from paddock.manifest.capability import parse_capability
from paddock.manifest.compatibility import CompatibilityLevel
from paddock.manifest.diff import UpgradeDiff, diff_manifests
from paddock.manifest.effects import Effect
from paddock.manifest.model import (
    Behaviour,
    CallableForm,
    CallableSpec,
    CommandRuntime,
    DataAccess,
    Dialect,
    Feeds,
    IdentityRequirement,
    Knob,
    Manifest,
    Observability,
    OperationAuth,
    PluginKind,
    Prompt,
    PythonRuntime,
    RemoteRuntime,
    Requires,
    Resource,
    Timing,
)
from paddock.manifest.secret_use import parse_recipient


def upgrade(old: dict[str, Any], new: dict[str, Any]) -> UpgradeDiff:
    return diff_manifests(
        sound(native(**({"version": "1.0.0"} | old))),
        sound(native(**({"version": "1.0.1"} | new))),
        lambda schema: schema,
        lambda schema: schema,
    )


def test_only_what_was_not_granted_needs_a_new_yes() -> None:
    found = upgrade(
        {"capabilities": ["write:fs:/opt/x", "net:a.example:*", "storage:read"]},
        {"capabilities": ["read:fs:/opt/x/y", "net:a.example:443", "storage:write"]},
    )

    assert [str(one) for one in found.added] == ["storage:write"]
    assert found.added
    assert [str(one) for one in found.removed] == ["write:fs:/opt/x", "net:a.example:*", "storage:read"]


@pytest.mark.parametrize(
    ("before", "after", "added"),
    [
        ({"secrets": ["a"]}, {"secrets": ["a", "b"]}, ["secret:b"]),
        ({"secret_hosts": {"a": ["x.example:443"]}}, {}, ["secret:a"]),
        (
            {"secret_hosts": {"a": ["x.example:443"]}},
            {"secret_hosts": {"a": ["y.example:*"]}},
            ["secret:a=y.example:*"],
        ),
        (
            {"secret_hosts": {"a": ["x.example:443"]}},
            {"secret_hosts": {"a": ["X-Note@x.example:443"]}},
            ["secret:a=x-note@x.example:443"],
        ),
        ({}, {"secret_hosts": {"a": ["x.example:443"]}}, []),
        ({"secret_hosts": {"a": ["x.example:*"]}}, {"secret_hosts": {"a": ["x.example:443"]}}, []),
        ({"capabilities": []}, {}, ["host:secrets", "secret:a"]),
    ],
)
def test_another_secret_and_one_that_may_go_elsewhere_need_a_new_yes(
    before: dict[str, Any], after: dict[str, Any], added: list[str]
) -> None:
    base = {"capabilities": ["host:secrets"], "secrets": ["a"]}
    found = upgrade(base | before, base | after)

    assert [str(one) for one in found.added] == added
    assert [parse_capability(text) for text in added] == list(found.added)


def test_saying_that_there_is_no_network_is_not_asking_for_anything() -> None:
    found = upgrade({"capabilities": []}, {"capabilities": ["net:[]"]})

    assert (found.added, found.removed) == ((), ())


def test_other_lines_of_the_consent_screen_are_told_where_they_differ() -> None:
    found = upgrade(
        {"data_access": {"vault_read": True}, "tools": [{"name": "a", "effects": []}]},
        {"data_access": {"vault_write": True}, "tools": [{"name": "a", "effects": ["db_write"]}]},
    )

    assert "no longer: Reads your private knowledge vault" in found.changes
    assert "new: Stores its own progress in your private vault" in found.changes
    assert "new: writes to a database: a" in found.changes


def test_leaving_the_cage_is_said_first() -> None:
    found = upgrade({"runtime": {"command": ["x"]}}, {"runtime": {"url": "https://a.example"}})
    back = upgrade({"runtime": {"url": "https://a.example"}}, {"runtime": {"command": ["x"]}})

    assert "NOT caged" in found.changes[0]
    assert "cage" in back.changes[0]


def test_two_equal_versions_change_nothing() -> None:
    same = {"capabilities": ["net:a.example:1"], "tools": [{"name": "a", "input_schema": {"type": "object"}}]}
    found = upgrade(same, same)

    assert (found.added, found.removed, found.changes, found.compatibility) == ((), (), (), ())


@pytest.mark.parametrize(
    ("version", "reported"), [("1.0.1", {"a", "b", "c"}), ("1.1.0", {"a", "b"}), ("2.0.0", set[str]())]
)
def test_a_difference_larger_than_the_version_step_is_reported(version: str, reported: set[str]) -> None:
    found = upgrade(
        {"tools": [{"name": "a", "input_schema": {}}, {"name": "b"}]},
        {"version": version, "tools": [{"name": "a", "input_schema": {"required": ["x"]}}, {"name": "c"}]},
    )

    assert {difference.path.partition(".")[0] for difference in found.compatibility} == reported
    assert all(difference.change is not CompatibilityLevel.NONE for difference in found.compatibility)


def test_a_capability_that_became_narrower_is_told_and_needs_no_new_yes() -> None:
    found = upgrade({"capabilities": ["net:a.example:*"]}, {"capabilities": ["net:a.example:443"]})
    beside = upgrade({"capabilities": ["net:a.example:*"]}, {"capabilities": ["net:a.example:*", "net:a.example:443"]})

    assert not found.added
    assert any(line.startswith("narrowed to net:a.example:443") for line in found.changes)
    assert beside.changes == ("also lists net:a.example:443, which net:a.example:* includes",)


def test_a_change_that_has_no_sentence_is_named_by_its_path() -> None:
    def schema(default: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"host": {"type": "string", "default": default}}}

    found = upgrade({"config_schema": schema("a.example")}, {"config_schema": schema("evil.example")})

    assert found.changes == ("also changed: config_schema.properties.host",)


def test_very_many_changed_paths_are_counted() -> None:
    found = upgrade(
        {"tools": [{"name": f"t{index}", "timeout_sec": 1} for index in range(30)]},
        {"tools": [{"name": f"t{index}", "timeout_sec": 2} for index in range(30)]},
    )

    (line,) = found.changes
    assert line.startswith("also changed: tools.t0.timeout_sec, ")
    assert line.endswith("tools.t19.timeout_sec and 10 more paths")


MANIFEST = Manifest(
    PluginName("hello"),
    "1.0.0",
    Dialect.NATIVE,
    runtime=CommandRuntime(("x",)),
    callables=(CallableSpec("a", CallableForm.TOOL),),
)

MANIFEST_CHANGES: dict[str, Any] = {
    "name": PluginName("other"),
    "dialect": Dialect.KAGED,
    "kind": PluginKind.AGENT,
    "api": 2,
    "trust_claim": "core",
    "runtime": CommandRuntime(("y",)),
    "start": "lazy",
    "capabilities": (parse_capability("net:a.example:443"),),
    "callables": (),
    "config_schema": {"type": "object"},
    "system_config_schema": {"type": "object"},
    "knobs": (Knob("k", "boolean", "k", "config.k"),),
    "requires": Requires(capabilities=("x",)),
    "observability": Observability("debug"),
    "behaviour": Behaviour(),
    "data_access": DataAccess(),
    "resources": (Resource("x:y", "x"),),
    "prompts": (Prompt("x"),),
    "identities": (IdentityRequirement("x"),),
    "operation_auth": (OperationAuth("x", subject_hint="y"),),
    "secret_hosts": {"x": (parse_recipient("a.example:443"),)},
    "feeds": Feeds("x"),
    "timing": Timing(call=31),
}
CALLABLE_CHANGES: dict[str, Any] = {
    "form": CallableForm.METHOD,
    "input_schema": {},
    "output_schema": {},
    "effects": (Effect.DB_WRITE,),
    "requires_approval": True,
    "timeout_sec": 3,
    "annotations": {"readOnlyHint": True},
}
RUNTIMES = [
    (CommandRuntime(("x",)), {"command": ("y",), "protocol": "mcp", "env": {"a": "b"}, "cwd": "/x"}),
    (PythonRuntime({"a": "b:C"}), {"entrypoints": {"a": "b:D"}, "env": {"a": "b"}}),
    (RemoteRuntime("https://a.example"), {"url": "https://b.example", "transport": "sse", "headers": {"a": "b"}}),
]


def other_value(field: Any, changes: dict[str, Any]) -> Any:
    """Another value for a field; a text or a list of texts needs no example of its own."""
    if field.name in changes:
        return changes[field.name]
    assert field.default is not NODEFAULT, f"give {field.name} a changed value"
    return "another" if isinstance(field.default, str) else ("another",)


def shown_changes(old: Manifest, new: Manifest) -> tuple[object, ...]:
    found = diff_manifests(old, replace(new, version="2.0.0"), lambda schema: schema, lambda schema: schema)
    return (*found.changes, *found.added, *found.removed)


@all_cases("name", [field.name for field in fields(Manifest) if field.name != "version"])
def test_whatever_changes_in_a_manifest_an_upgrade_shows_it(name: str) -> None:
    field = next(one for one in fields(Manifest) if one.name == name)
    changed = replace(MANIFEST, **{name: other_value(field, MANIFEST_CHANGES)})

    assert changed != MANIFEST
    assert shown_changes(MANIFEST, changed)
    assert shown_changes(changed, MANIFEST)


@all_cases("name", [field.name for field in fields(CallableSpec)])
def test_whatever_changes_in_a_callable_an_upgrade_shows_it(name: str) -> None:
    field = next(one for one in fields(CallableSpec) if one.name == name)
    (spec,) = MANIFEST.callables
    value = "b" if name == "name" else other_value(field, CALLABLE_CHANGES)
    changed = replace(MANIFEST, callables=(replace(spec, **{name: value}),))

    assert changed != MANIFEST
    assert shown_changes(MANIFEST, changed)
    assert shown_changes(changed, MANIFEST)


@pytest.mark.parametrize(("runtime", "name"), [(one, field.name) for one, _ in RUNTIMES for field in fields(one)])
def test_whatever_changes_in_a_program_an_upgrade_shows_it(runtime: Any, name: str) -> None:
    value = next(changes for one, changes in RUNTIMES if one is runtime)[name]
    old = replace(MANIFEST, runtime=runtime)
    changed = replace(MANIFEST, runtime=replace(runtime, **{name: value}))

    assert changed != old
    assert shown_changes(old, changed)
    assert shown_changes(changed, old)
