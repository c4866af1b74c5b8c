"""How a manifest says that it can be found out whether an effect has happened."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import kernel, native, sound, the_only_error

from paddock.manifest.result import ManifestResult

LOOK = {"name": "was_sent", "description": "Look", "effects": ["read_only"]}


def mail(**more: Any) -> ManifestResult:
    return native(tools=[{"name": "send", "description": "Send", "effects": ["external_send"], **more}, LOOK])


def test_what_is_not_said_is_found_out_by_a_person() -> None:
    assert sound(mail()).callables[0].recovery == "none"


def test_a_plugin_names_the_callable_that_looks_or_that_its_other_side_knows_the_key() -> None:
    probed = sound(mail(recovery="probe", probe="was_sent")).callables[0]

    assert (probed.recovery, probed.probe) == ("probe", "was_sent")
    assert sound(mail(recovery="native_key")).callables[0].recovery == "native_key"
    assert sound(kernel(recovery="native_key")).callables[0].recovery == "native_key"


def test_what_only_changes_the_plugins_own_tables_can_be_atomic() -> None:
    tool = {"name": "keep", "description": "Keep", "effects": ["db_write"], "recovery": "atomic"}

    assert sound(native(tools=[tool], capabilities=["storage:write"])).callables[0].recovery == "atomic"
    for lacking in ({"capabilities": []}, {"capabilities": ["storage:read"]}):
        error = the_only_error(native(tools=[tool], **lacking))
        assert (error.path, error.code) == ("tools[0].recovery", "missing")
    for effects in (["db_write", "external_send"], ["external_send"], ["unknown"]):
        error = the_only_error(native(tools=[tool | {"effects": effects}], capabilities=["storage:write"]))
        assert (error.path, error.code) == ("tools[0].recovery", "wrong_value")


@pytest.mark.parametrize(
    ("said", "path", "code"),
    [
        ({"recovery": "probe"}, "tools[0]", "missing"),
        ({"probe": "was_sent"}, "tools[0].probe", "unexpected"),
        ({"recovery": "probe", "probe": "nobody"}, "tools[0].probe", "unknown_name"),
        ({"recovery": "probe", "probe": "send"}, "tools[0].probe", "wrong_value"),
    ],
)
def test_a_probe_that_is_none_is_refused(said: dict[str, Any], path: str, code: str) -> None:
    error = the_only_error(mail(**said))

    assert (error.path, error.code) == (path, code)


@pytest.mark.parametrize("said", ["probe", "atomic"])
def test_the_manifest_of_one_operator_has_nothing_that_could_look_and_says_so(said: str) -> None:
    error = the_only_error(kernel(recovery=said))

    assert (error.path, error.code) == ("recovery", "enum")
    assert error.hint == "say none or native_key: with one callable there is no other that could look"
