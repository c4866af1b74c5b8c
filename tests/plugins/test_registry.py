"""Finding plugins: by name and constraint, by kind, and by the schemas they bring."""

from __future__ import annotations

import pytest

from fixtures.packages import kernel, native, osqr
from fixtures.shelves import Shelf
from paddock.core.errors import NotFound, PaddockError, PluginError
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.store.lookup import add_alias, resolve_plugin
from paddock.plugins.store.versions import pin_version
from paddock.plugins.tool_pinning.validate import validate_value

VERSIONS = ["1.0.0", "1.2.0", "1.2.5", "1.10.0", "2.0.0-rc.1", "2.0.0"]


@pytest.mark.req("K-03", "highest match")
@pytest.mark.req("K-03", "versions side by side")
def test_the_highest_installed_version_that_a_constraint_allows_is_found(shelf: Shelf) -> None:
    # Out of order: what counts is the version, not when it came.
    for version in ["1.10.0", "1.0.0", "2.0.0-rc.1", "1.2.5", "2.0.0", "1.2.0"]:
        shelf.install(version=version, downgrade=True)
    found = {
        constraint: resolve_plugin(shelf.plugins, "notes", constraint).manifest.version
        for constraint in ["1.2.0", "1.x", "1.2.x", "^1.0.0", "~1.2.0", ">=1.0.0 <1.10.0", "*", ">=2.0.0-rc.0 <2.0.0"]
    }

    assert found == {
        "1.2.0": "1.2.0",
        "1.x": "1.10.0",
        "1.2.x": "1.2.5",
        "^1.0.0": "1.10.0",
        "~1.2.0": "1.2.5",
        ">=1.0.0 <1.10.0": "1.2.5",
        "*": "2.0.0",
        ">=2.0.0-rc.0 <2.0.0": "2.0.0-rc.1",
    }
    handle = resolve_plugin(shelf.plugins, "notes", "1.2.x")
    assert handle.root == shelf.plugins.version_root("notes", "1.2.5")
    assert (handle.root / "run.sh").is_file()


def test_without_a_constraint_the_version_in_use_is_found(shelf: Shelf) -> None:
    shelf.install(version="1.0.0")
    shelf.install(version="2.0.0")
    assert resolve_plugin(shelf.plugins, "notes").manifest.version == "2.0.0"
    pin_version(shelf.plugins, "notes", "1.0.0")
    assert resolve_plugin(shelf.plugins, "notes").manifest.version == "1.0.0"


@pytest.mark.req("K-03", "nothing unregistered is called")
def test_nothing_that_is_not_registered_is_found(shelf: Shelf) -> None:
    with pytest.raises(NotFound) as nothing:
        resolve_plugin(shelf.plugins, "notes")
    assert nothing.value.error_code == "plugin.not_found"

    shelf.install(version="1.0.0")
    with pytest.raises(NotFound) as higher:
        resolve_plugin(shelf.plugins, "notes", "^2.0.0")
    assert higher.value.error_code == "plugin.no_such_version"
    assert "1.0.0" in higher.value.hint
    with pytest.raises(PaddockError, match="constraint"):
        resolve_plugin(shelf.plugins, "notes", "latest please")


@pytest.mark.req("K-03", "list by kind")
def test_the_list_narrows_by_kind(shelf: Shelf) -> None:
    for name, kind in [("A.Agent", "agent"), ("B.Operator", "operator"), ("C.Tool", "tool"), ("D.Adapter", "adapter")]:
        shelf.install(name, make=kernel, kind=kind)
    shelf.install("notes", make=native)

    assert [one.plugin.name for one in list_plugins(shelf.plugins)] == [
        *("A.Agent", "B.Operator", "C.Tool", "D.Adapter", "notes"),
    ]
    for kind, name in [("agent", "A.Agent"), ("operator", "B.Operator"), ("tool", "C.Tool"), ("adapter", "D.Adapter")]:
        assert [one.plugin.name for one in list_plugins(shelf.plugins, kind)] == [name]
    assert [one.plugin.name for one in list_plugins(shelf.plugins, "plugin")] == ["notes"]


@pytest.mark.req("K-03", "validate by schema")
def test_a_value_is_checked_against_the_schema_of_the_version_that_is_named(shelf: Shelf) -> None:
    number = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    shelf.install("Email.Draft", "1.0.0", kernel)
    shelf.install("Email.Draft", "2.0.0", kernel, input_schema=number)

    assert validate_value(shelf.plugins, {"text": "hi"}, "Email.Draft@1.x#input") == []
    assert validate_value(shelf.plugins, {"count": 3}, "Email.Draft#input") == []
    assert [problem.path for problem in validate_value(shelf.plugins, {"count": "x"}, "Email.Draft@2.x#input")] == [
        "count"
    ]
    assert validate_value(shelf.plugins, {}, "Email.Draft#Email.Draft/output")


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("Absent#input", "plugin.not_found"),
        ("notes@9.x#add/input", "plugin.no_such_version"),
        ("notes#subtract/input", "callable.not_found"),
        ("notes#add/sideways", "schema.not_found"),
        ("notes#add/output", "schema.not_found"),
        ("notes", "schema.not_found"),
    ],
)
def test_a_schema_that_does_not_exist_is_told(shelf: Shelf, reference: str, code: str) -> None:
    shelf.install()
    with pytest.raises(NotFound) as refused:
        validate_value(shelf.plugins, {}, reference)
    assert refused.value.error_code == code


def test_the_kernels_two_names_for_one_thing_find_the_same_plugin(shelf: Shelf) -> None:
    shelf.install("Apply.EmailDraft", make=kernel)

    assert resolve_plugin(shelf.plugins, "Email.ApplyDraft").manifest.name == "Apply.EmailDraft"
    add_alias(shelf.plugins, "Draft.Send", "Email.ApplyDraft")
    assert resolve_plugin(shelf.plugins, "Draft.Send").manifest.name == "Apply.EmailDraft"


def test_what_was_stored_reads_back_as_the_manifest_that_was_installed(shelf: Shelf) -> None:
    shelf.install("Fourth Formula", make=osqr)
    manifest = resolve_plugin(shelf.plugins, "fourth-formula").manifest

    assert (manifest.title, manifest.dialect) == ("Fourth Formula", "osqr")
    assert manifest.behaviour is not None
    assert manifest.behaviour.trigger_topics == ("money",)


@pytest.mark.req("K-03", "validate by schema")
def test_a_schema_file_that_is_broken_never_passes_for_one_that_fits(shelf: Shelf) -> None:
    package = kernel(shelf.folder / "package")
    for schema in (package / "schemas").iterdir():
        schema.write_text("not json")
    shelf.take(package)
    name = list_plugins(shelf.plugins)[0].plugin.name
    with pytest.raises(PluginError, match="cannot be used"):
        validate_value(shelf.plugins, {"anything": 1}, f"{name}#input")
