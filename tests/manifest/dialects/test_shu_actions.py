"""The actions of a Shu class, read from its source and never by running it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.manifest.documents import native, shu, sound, the_only_error

from paddock.core.errors import Invalid
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableForm, CallableSpec, Manifest
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.permissions import callable_effects
from paddock.manifest.read import read_bytes, read_package

META = '"name": "send", "description": "Send it", "required_scopes": ["a:b"], "requires_approval": True'
PLUGIN = """
raise SystemExit("it was run")
SCHEMA = {{"type": "object"}}
ALL = [{{{meta}, "params_schema": SCHEMA}}]
class Plugin:
    ALL = ALL
    MORE = [ActionMeta(name="send", description="Send it", required_scopes=["a:b"], requires_approval=True,
                       params_schema=SCHEMA)]
    async def execute(self, params, context, host): pass
    async def list_actions(self):
        {returned}
"""


def package(folder: Path, returned: str, entrypoints: str = "a: 'thing:Plugin'") -> Path:
    (folder / "manifest.yaml").write_text(
        f"name: a\nversion: 1.0.0\ncapabilities: [storage]\nentrypoints: {{{entrypoints}}}\n"
    )
    (folder / "thing.py").write_text(PLUGIN.format(returned=returned, meta=META))
    return folder


def actions(manifest: Manifest) -> list[CallableSpec]:
    return [spec for spec in manifest.callables if spec.form is CallableForm.ACTION]


@pytest.mark.parametrize(
    "returned",
    [
        f"return [{{{META}, 'params_schema': {{'type': 'object'}}}}]",
        "return [dict(name='send', description='Send it', required_scopes=['a:b'], requires_approval=True,"
        " params_schema=SCHEMA)]",
        "return ALL",
        "return self.MORE",
        "return Plugin.MORE",
    ],
    ids=["literals", "made from literals", "a name of the module", "a name of the class", "the class by its name"],
)
def test_actions_are_read_with_all_that_is_said_of_them(tmp_path: Path, returned: str) -> None:
    manifest = read_package(package(tmp_path, returned)).single()

    (send,) = actions(manifest)
    assert (send.name, send.description, send.of) == ("send", "Send it", "a")
    assert (send.input_schema, send.required_scopes, send.requires_approval) == ({"type": "object"}, ("a:b",), True)
    assert callable_effects(manifest, send) == (Effect.UNKNOWN,)
    assert manifest.whole is not None
    assert read_bytes("paddock.yaml", to_yaml(manifest).encode()).single() == manifest


@pytest.mark.parametrize(
    "returned", ["return make()", "return [*ALL]", "return [{'name': 'a' + 'b'}]", "return UNKNOWN", "return 7", "pass"]
)
def test_actions_that_are_computed_are_warned_about_and_are_none(tmp_path: Path, returned: str) -> None:
    read = read_package(package(tmp_path, returned))

    assert actions(read.single()) == []
    assert [problem.code for problem in read.warnings] == ["actions_computed"]


def test_what_is_no_plain_no_wants_a_person_asked(tmp_path: Path) -> None:
    (action,) = actions(
        read_package(package(tmp_path, "return [{'name': 'x', 'requires_approval': 'maybe'}]")).single()
    )

    assert action.requires_approval


def test_a_class_with_two_names_has_its_actions_once(tmp_path: Path) -> None:
    manifest = read_package(package(tmp_path, "return ALL", "a: 'thing:Plugin', b: 'thing:Plugin'")).single()

    assert [(action.name, action.of) for action in actions(manifest)] == [("send", "a")]
    assert manifest.whole is None


@pytest.mark.parametrize(
    ("returned", "code"),
    [
        ("return [{'name': 'x'}, {'name': 'x'}]", "duplicate_name"),
        ("return [{'name': 'a'}]", "duplicate_name"),
        ("return [{'description': 'x'}]", "missing"),
        ("return [{'name': 'x', 'params_schema': {'type': 'wrong'}}]", "anyOf"),
        ("return [{'name': 'x', 'params_schema': {'properties': {'access_token': {}}}}]", "auth_field"),
    ],
)
def test_mistakes_in_actions_are_told(tmp_path: Path, returned: str, code: str) -> None:
    with pytest.raises(Invalid) as wrong:
        read_package(package(tmp_path, returned)).single()

    assert [problem.code for problem in wrong.value.problems] == [code]


def test_a_manifest_may_list_actions_that_its_code_computes() -> None:
    manifest = sound(shu(actions=[{"name": "send", "requires_approval": True, "effects": ["external_send"]}]))

    (send,) = actions(manifest)
    assert (send.effects, send.requires_approval) == ((Effect.EXTERNAL_SEND,), True)


def test_only_plugins_of_shus_dialect_have_actions() -> None:
    assert the_only_error(native(actions=[{"name": "b", "of": "a"}])).code == "actions"
