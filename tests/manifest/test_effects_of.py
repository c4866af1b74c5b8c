"""What a callable may do: declared, or shown by its cage, or unknown; never what a server says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import kaged, native, osqr, read_json, sound

from paddock.manifest.effects import EFFECT_TEXT, Effect, effect_words, parse_effect
from paddock.manifest.permissions import callable_effects


def first(**changes: Any) -> tuple[Effect, ...]:
    manifest = sound(native(**changes))
    return callable_effects(manifest, manifest.callables[0])


@pytest.mark.parametrize("declared", [["read_only"], []])
def test_a_tool_that_declares_nothing_but_reading_reads(declared: list[str]) -> None:
    capabilities = ["net:*", "write:fs:/opt/x"]

    assert first(tools=[{"name": "x", "effects": declared}], capabilities=capabilities) == (Effect.READ_ONLY,)


def test_what_is_declared_counts_even_where_the_cage_allows_less() -> None:
    assert first(tools=[{"name": "x", "effects": ["db_write", "email_send"]}]) == (
        Effect.DB_WRITE,
        Effect.EXTERNAL_SEND,
    )


@pytest.mark.parametrize("capabilities", [[], ["net:[]"], ["read:fs:/opt/x", "storage:read"], ["host:vault:read"]])
def test_a_tool_whose_cage_can_change_nothing_reads(capabilities: list[str]) -> None:
    assert first(tools=[{"name": "x"}], capabilities=capabilities) == (Effect.READ_ONLY,)


@pytest.mark.parametrize(
    "capability", ["net:a.example:443", "write:fs:/opt/x", "exec:bash:/opt/x", "storage:write", "host:http", "host:kb"]
)
def test_a_tool_that_says_nothing_in_a_cage_that_can_act_is_unknown(capability: str) -> None:
    assert first(tools=[{"name": "x"}], capabilities=[capability]) == (Effect.UNKNOWN,)


def test_a_remote_server_is_unknown_whatever_it_asks_for() -> None:
    assert first(tools=[{"name": "x"}], runtime={"url": "https://a.example"}) == (Effect.UNKNOWN,)


@pytest.mark.parametrize("hints", [{"readOnlyHint": True}, {"readOnlyHint": True, "destructiveHint": False}])
def test_a_servers_own_hints_never_lower_a_guard(hints: dict[str, bool]) -> None:
    tool = {"name": "x", "inputSchema": {}, "annotations": hints}
    manifest = sound(osqr(capabilities={"tools": [tool]}, data_access={"pkv_write": True}))

    assert manifest.callables[0].annotations == hints
    assert callable_effects(manifest, manifest.callables[0]) == (Effect.UNKNOWN,)
    remote = {"name": "x", "annotations": hints}
    assert first(tools=[remote], runtime={"url": "https://a.example"}) == (Effect.UNKNOWN,)


def test_a_kaged_method_without_effects_is_judged_by_its_cage() -> None:
    quiet = sound(kaged(methods=["a.b"]))
    loud = sound(kaged(methods=["a.b"], capabilities=["kaged:storage:write"]))

    assert callable_effects(quiet, quiet.callables[0]) == (Effect.READ_ONLY,)
    assert callable_effects(loud, loud.callables[0]) == (Effect.UNKNOWN,)


def test_an_imported_bundle_without_network_is_judged_by_its_cage() -> None:
    document = {
        "manifest_version": "0.3",
        "name": "x",
        "version": "1.0.0",
        "description": "x",
        "author": {"name": "x"},
        "server": {"type": "node", "mcp_config": {"command": "node"}},
        "tools": [{"name": "t"}],
    }
    manifest = sound(read_json("manifest.json", document))

    assert callable_effects(manifest, manifest.callables[0]) == (Effect.READ_ONLY,)


def test_every_accepted_word_is_an_effect_and_every_effect_is_told_in_words() -> None:
    assert all(parse_effect(word) for word in effect_words())
    assert set(EFFECT_TEXT) == set(Effect)
    assert parse_effect("launch_rocket") is None
