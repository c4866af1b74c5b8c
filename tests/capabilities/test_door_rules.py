"""The door asks the rules: between what a person granted and what is done stands what they say, and it is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.core.action import Action
from paddock.core.errors import Denied
from paddock.core.events.capabilities import PluginAsked, PluginCapabilityDenied
from paddock.manifest.model import PluginKind

from .stage import Stage, open_stage, plugin, rules_with, wire_code

READS = frozenset({"read_only"})
WRITING = (
    ("storage.exec", {"sql": "CREATE TABLE t (n)"}),
    ("storage.begin", {}),
    ("keyvalue.put", {"key": "k", "value": 1}),
    ("keyvalue.delete", {"key": "k"}),
)
USE = 'principal, action == Action::"use", resource'


def own(name: str, said: str, more: str = "") -> str:
    return f'@id("{name}") @text("The text of {name}.") {more}\n{said};\n'


def counts(stage: Stage) -> list[tuple[str, str, int]]:
    return [(event.name, event.method, event.count) for event in stage.recorded(PluginAsked)]


# --- what was not declared ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "params"), WRITING)
async def test_a_call_that_says_it_only_reads_cannot_write_whatever_was_granted(
    method: str, params: dict[str, Any], tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as stage:
        error = await stage.refused(plugin(effects=READS, method_counts={}), method, **params)

        assert isinstance(error, Denied)
        assert wire_code(error) == (-32003 if method.startswith("storage.") else -32001)
        assert "does not declare this effect" in error.message
        assert error.hint == "declare db_write among the effects of what was called"
        (event,) = stage.recorded(PluginCapabilityDenied)
        assert (event.method, event.policies) == (method, ("no-undeclared-effects",))
        assert event.policy_version == stage.book.policy.version
        assert not (tmp_path / "storage").exists(), "nothing was touched"


async def test_a_call_may_do_what_it_declares_and_read_whatever_it_declares(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        for effects in (frozenset({"db_write"}), frozenset({"unknown"}), frozenset({"final_write", "db_write"}), None):
            for method, params in WRITING[2:]:
                await stage.ask(plugin(effects=effects), method, **params)
        assert (await stage.ask(plugin(effects=READS), "keyvalue.get", key="k"))["found"] is False
        assert await stage.ask(plugin(effects=READS), "storage.schema") == {"tables": []}
        # How far it read, and what it may forget at any time, are books that it keeps for itself.
        assert await stage.ask(plugin(effects=READS), "cache.set", key="k", value=1)
        assert not stage.recorded(PluginCapabilityDenied)


DEFINITIONS = (
    "CREATE TABLE IF NOT EXISTS t (n)",
    "CREATE INDEX IF NOT EXISTS i ON t (n)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS f USING fts5(words)",
)


async def test_a_call_that_only_reads_may_make_an_empty_table_for_itself_and_put_nothing_into_it(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        missing = await stage.refused(plugin(effects=READS), "storage.query", sql="SELECT n FROM t")
        assert missing.message == "SQLite says: no such table: t"
        assert missing.hint.startswith("run CREATE TABLE IF NOT EXISTS first")
        for sql in (*DEFINITIONS, *DEFINITIONS):
            await stage.ask(plugin(effects=READS), "storage.exec", sql=sql)
        found = await stage.ask(plugin(effects=READS), "storage.query", sql="SELECT count(*) AS n FROM t")
        assert found["rows"] == [{"n": 0}]
        for sql in (
            "INSERT INTO t VALUES (1)",
            "CREATE TABLE IF NOT EXISTS copy AS SELECT 1 AS n",
            'CREATE TABLE IF NOT EXISTS "copy" AS SELECT 1 AS n',
            "CREATE TABLE other (n)",
            "DROP TABLE t",
        ):
            assert isinstance(await stage.refused(plugin(effects=READS), "storage.exec", sql=sql), Denied)
        two = "CREATE TABLE IF NOT EXISTS u (n); INSERT INTO t VALUES (1)"
        assert isinstance(await stage.refused(plugin(effects=READS), "storage.exec", sql=two), Denied)
        for kind in (PluginKind.AGENT, PluginKind.TOOL, PluginKind.ADAPTER):
            asking = plugin("Text.Score", kind=kind, effects=READS)
            assert isinstance(await stage.refused(asking, "storage.exec", sql=DEFINITIONS[0]), Denied)
        reader = plugin("n", ("storage:read",), effects=READS)
        assert isinstance(await stage.refused(reader, "storage.exec", sql=DEFINITIONS[0]), Denied)
        assert (await stage.ask(plugin(effects=READS), "storage.query", sql="SELECT n FROM t"))["rows"] == []


@pytest.mark.parametrize(("method", "params"), WRITING)
async def test_a_request_that_names_no_call_cannot_do_what_no_call_under_way_declares(
    method: str, params: dict[str, Any], tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as stage:
        error = await stage.refused(plugin(process_effects=READS), method, **params)

        assert isinstance(error, Denied)
        assert "It names no call that this is for, and none of the calls that it works on" in error.message
        assert error.hint.startswith("declare db_write among the effects of what was called, or ")
        (event,) = stage.recorded(PluginCapabilityDenied)
        assert (event.method, event.policies) == (method, ("no-effects-beside-the-calls",))
        assert event.request_id is None
        assert not (tmp_path / "storage").exists(), "nothing was touched"


async def test_a_request_that_names_no_call_may_be_for_any_under_way_that_declares_it(tmp_path: Path) -> None:
    writes, says_nothing = frozenset({"read_only", "db_write"}), frozenset({"read_only", "unknown"})
    async with open_stage(tmp_path) as stage:
        for underway in (writes, says_nothing, None):
            await stage.ask(plugin(process_effects=underway), "keyvalue.put", key="k", value=1)
        assert (await stage.ask(plugin(process_effects=READS), "keyvalue.get", key="k"))["found"] is True
        assert not stage.recorded(PluginCapabilityDenied)


# --- what the rules say ---------------------------------------------------------------------------------------------


async def test_that_a_kind_keeps_nothing_is_a_rule_which_is_named_in_the_record(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        error = await stage.refused(plugin("Text.Score", kind=PluginKind.TOOL), "cache.set", key="k", value=1)

        assert "only operators" in error.hint
        assert stage.recorded(PluginCapabilityDenied)[0].policies == ("only-operators-keep-something",)


async def test_no_rule_can_give_what_no_person_granted(tmp_path: Path) -> None:
    async with open_stage(tmp_path, rules=own("all", f"permit ({USE})")) as stage:
        error = await stage.refused(plugin(granted=()), "cache.get", key="k")

        assert "was not granted host:cache" in error.message
        assert stage.recorded(PluginCapabilityDenied)[0].policies == ()


async def test_a_rule_of_ones_own_can_take_back_what_was_granted_by_who_stands_behind_a_plugin(tmp_path: Path) -> None:
    rule = own("strangers", f'forbid ({USE}) when {{ principal.tier == Tier::"personal" }}')
    async with open_stage(tmp_path, rules=rule) as stage:
        error = await stage.refused(plugin(), "cache.get", key="k")
        assert error.message == "notes may not ask for cache.get: The text of strangers."
        assert error.action == Action.of("policy.show", rule="strangers")
        assert error.details["policies"] == ["strangers"]

        assert await stage.ask(plugin(tier="verified"), "cache.get", key="k")


async def test_a_plugin_does_not_learn_what_a_rule_keeps_from_people_and_the_record_does(tmp_path: Path) -> None:
    rule = own("secret", f"forbid ({USE})", '@public_text("Something was blocked.")')
    async with open_stage(tmp_path, rules=rule) as stage:
        error = await stage.refused(plugin(), "cache.get", key="k")

        told = f"{error.message} {error.hint} {dict(error.details)}"
        assert "Something was blocked." in told
        assert "secret" not in told
        assert stage.recorded(PluginCapabilityDenied)[0].policies == ("secret",)


async def test_new_rules_hold_for_the_very_next_request(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        assert await stage.ask(plugin(), "cache.get", key="k")
        stage.book.policy = rules_with(own("closed", f"forbid ({USE})"))
        assert "The text of closed." in (await stage.refused(plugin(), "cache.get", key="k")).message
        stage.book.policy = rules_with("")
        assert await stage.ask(plugin(), "cache.get", key="k")


# --- what is recorded of what was served ----------------------------------------------------------------------------


async def test_what_is_asked_for_in_a_call_is_counted_for_its_entry_and_what_is_denied_is_not(tmp_path: Path) -> None:
    tally: dict[str, int] = {}
    asking = plugin(effects=READS, method_counts=tally)
    async with open_stage(tmp_path) as stage:
        for _ in range(3):
            await stage.ask(asking, "cache.get", key="k")
        await stage.ask(asking, "storage.schema")
        await stage.refused(asking, "keyvalue.put", key="k", value=1)

        assert tally == {"cache.get": 3, "storage.schema": 1}
        assert counts(stage) == []


async def test_what_a_plugin_asks_for_of_its_own_accord_is_an_entry_at_once_and_then_one_a_second(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        for _ in range(50):
            await stage.ask(plugin(), "cache.get", key="k")
        await stage.ask(plugin("other"), "cache.get", key="k")
        await stage.ask(plugin(), "cache.delete", key="k")
        at_once = [("notes", "cache.get", 1), ("other", "cache.get", 1), ("notes", "cache.delete", 1)]
        assert counts(stage) == at_once

        await stage.until(lambda: len(counts(stage)) > len(at_once))
        assert counts(stage) == [*at_once, ("notes", "cache.get", 49)]

        for _ in range(5):
            await stage.ask(plugin(), "cache.get", key="k")
        assert counts(stage)[4:] == [], "the second that began with the last entry is not over"
    assert counts(stage)[4:] == [("notes", "cache.get", 5)], "what was counted is recorded when the door closes"


async def test_what_names_no_call_while_calls_are_under_way_is_recorded_apart_from_what_the_plugin_does_alone(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.ask(plugin(), "cache.get", key="k")
        for _ in range(2):
            await stage.ask(plugin(process_effects=READS), "cache.get", key="k")
    told = [(event.underway, event.count) for event in stage.recorded(PluginAsked)]
    assert told == [(False, 1), (True, 1), (True, 1)]
