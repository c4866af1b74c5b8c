"""What a call changes whose recovery is atomic is noted in its plugin's file together with the change."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.capabilities.request import CapabilityRequest
from paddock.capabilities.sql import effect_records
from paddock.capabilities.sql.effect_records import RecordedEffect
from paddock.core.call import CallContext, Principal
from paddock.core.canonical import hash_of
from paddock.core.errors import HostError
from paddock.core.ids import CallId, PrincipalId, RequestId
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableForm, CallableSpec

from .stage import SQL, Stage, open_stage, plugin

LONG_AGO = "2000-01-01T00:00:00+00:00"
PLUGIN = plugin("notes", SQL, instance="first")
ATOMIC = CallableSpec("keep", CallableForm.TOOL, effects=(Effect.DB_WRITE,), recovery="atomic")


def in_call(call: str, fence: int = 1, *, atomic: bool = True) -> CapabilityRequest:
    """The plugin, while it works on a call."""
    context = CallContext(Principal(PrincipalId("user:ann")), RequestId("req_1"), fence=fence, call=CallId(call))
    effects = frozenset({"db_write"})
    return replace(PLUGIN, call=context, call_id=CallId(call), atomic=atomic, effects=effects)


async def ended(stage: Stage, call: str, *, fence: int = 1, started_at: str = LONG_AGO) -> RecordedEffect | None:
    return await stage.storage.end_call(PLUGIN.tenant, PLUGIN.plugin, CallId(call), fence, started_at)


async def with_table(stage: Stage) -> None:
    await stage.exec(in_call("call_0", atomic=False), "CREATE TABLE t (x)")


async def kept(stage: Stage) -> list[Any]:
    return [x for (x,) in await stage.rows(PLUGIN, "SELECT x FROM t ORDER BY x")]


async def test_a_change_is_noted_with_what_the_call_will_answer_also_after_a_restart(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        await stage.exec(in_call("call_1"), "INSERT INTO t VALUES (1)", result={"n": 1})
        begun = await stage.ask(in_call("call_2"), "storage.begin")
        await stage.exec(in_call("call_2"), "INSERT INTO t VALUES (2)", **begun)
        await stage.exec(in_call("call_2"), "INSERT INTO t VALUES (3)", **begun)
        await stage.ask(in_call("call_2"), "storage.commit", **begun)

    async with open_stage(tmp_path) as stage:
        assert await ended(stage, "call_1") == RecordedEffect({"n": 1}, hash_of({"n": 1}))
        assert await ended(stage, "call_2") == RecordedEffect(None, None)
        assert await kept(stage) == [1, 2, 3]


async def test_what_was_taken_back_or_changed_nothing_is_not_noted(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        asking = in_call("call_1")
        begun = await stage.ask(asking, "storage.begin")
        await stage.exec(asking, "INSERT INTO t VALUES (1)", **begun)
        await stage.ask(asking, "storage.rollback", **begun)
        await stage.exec(asking, "CREATE TABLE IF NOT EXISTS u (x)")
        await stage.exec(asking, "UPDATE t SET x = 2")
        begun = await stage.ask(asking, "storage.begin")
        await stage.ask(asking, "storage.commit", **begun)

        assert await ended(stage, "call_1") is None


async def test_a_call_that_was_found_not_to_have_happened_changes_nothing_any_more(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        assert await ended(stage, "call_1") is None

        late = await stage.refused(in_call("call_1"), "storage.exec", sql="INSERT INTO t VALUES (1)")
        begun = await stage.ask(in_call("call_1"), "storage.begin")
        await stage.exec(in_call("call_1"), "INSERT INTO t VALUES (2)", **begun)
        later = await stage.refused(in_call("call_1"), "storage.commit", **begun)

        assert (late.error_code, later.error_code) == ("storage.call_over", "storage.call_over")
        assert await kept(stage) == []
        await stage.exec(in_call("call_1", fence=2), "INSERT INTO t VALUES (3)")  # made again
        assert await kept(stage) == [3]


async def test_a_call_changes_its_tables_once_and_in_transactions_of_its_own(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        await stage.exec(in_call("call_1"), "INSERT INTO t VALUES (1)")
        twice = await stage.refused(in_call("call_1"), "storage.exec", sql="INSERT INTO t VALUES (2)")
        begun = await stage.ask(in_call("call_2"), "storage.begin")
        await stage.exec(in_call("call_2"), "INSERT INTO t VALUES (3)", **begun)
        others = await stage.refused(in_call("call_3", atomic=False), "storage.commit", **begun)
        await stage.ask(in_call("call_2"), "storage.commit", **begun)

        assert (twice.error_code, others.error_code) == ("storage.one_transaction", "storage.other_call")
        assert await kept(stage) == [1, 3]


async def test_a_plugin_with_an_atomic_callable_changes_nothing_without_naming_a_call(tmp_path: Path) -> None:
    unnamed = replace(PLUGIN, manifest=replace(PLUGIN.manifest, callables=(ATOMIC,)))
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        refused = [
            await stage.refused(unnamed, "storage.exec", sql="INSERT INTO t VALUES (1)"),
            await stage.refused(unnamed, "storage.begin"),
        ]
        assert [error.error_code for error in refused] == ["storage.unnamed_call"] * 2
        assert await stage.rows(unnamed, "SELECT x FROM t") == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM paddock_effects",
        "SELECT count(*) FROM main.PADDOCK_EFFECTS",
        "INSERT INTO paddock_effects VALUES ('call_9', 1, 1, NULL, NULL, '')",
        "UPDATE paddock_effects SET happened = 0",
        "DELETE FROM paddock_effects",
        "DROP TABLE paddock_effects",
        "ALTER TABLE paddock_effects RENAME TO mine",
        "ALTER TABLE paddock_effects ADD COLUMN x",
        "CREATE INDEX i ON paddock_effects (call)",
        "CREATE TRIGGER tr AFTER INSERT ON paddock_effects BEGIN DELETE FROM t; END",
        "CREATE TABLE copied AS SELECT * FROM paddock_effects",
    ],
)
async def test_no_statement_of_a_plugin_reads_or_changes_the_notes(tmp_path: Path, sql: str) -> None:
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        await stage.exec(in_call("call_1"), "INSERT INTO t VALUES (1)")

        error = await stage.refused(in_call("call_2", atomic=False), "storage.exec", sql=sql)

        assert error.error_code == "storage_access_denied"
        assert await ended(stage, "call_1") == RecordedEffect(None, None)
        assert await stage.ask(PLUGIN, "storage.schema") == {"tables": ["t"]}


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE Paddock_Effects (call, fence, happened)",
        "CREATE VIEW paddock_effects AS SELECT 1",
        "ALTER TABLE t RENAME TO paddock_effects",
    ],
)
async def test_no_table_of_a_plugin_takes_the_place_of_the_notes(tmp_path: Path, sql: str) -> None:
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        error = await stage.refused(in_call("call_1", atomic=False), "storage.exec", sql=sql)
        assert error.error_code == "storage_access_denied"
        assert await stage.ask(PLUGIN, "storage.schema") == {"tables": ["t"]}


async def test_a_view_or_trigger_of_a_plugin_reaches_the_notes_no_more_than_it_does(tmp_path: Path) -> None:
    asking = in_call("call_2", atomic=False)
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        await stage.exec(in_call("call_1"), "INSERT INTO t VALUES (1)")
        await stage.exec(asking, "CREATE VIEW v AS SELECT * FROM paddock_effects")
        await stage.exec(asking, "CREATE TRIGGER tr AFTER DELETE ON t BEGIN DELETE FROM paddock_effects; END")
        refused = [
            await stage.refused(asking, "storage.query", sql="SELECT * FROM v"),
            await stage.refused(asking, "storage.exec", sql="DELETE FROM t"),
        ]
        assert [error.error_code for error in refused] == ["storage_access_denied"] * 2
        assert await ended(stage, "call_1") == RecordedEffect(None, None)


async def test_notes_that_nobody_will_ask_for_go_with_the_next_one(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        await stage.exec(in_call("call_1"), "INSERT INTO t VALUES (1)")
        stage.storage.release_effect_record(PLUGIN.tenant, PLUGIN.plugin, CallId("call_1"))
        assert await ended(stage, "call_1") == RecordedEffect(None, None)

        await stage.exec(in_call("call_2"), "INSERT INTO t VALUES (2)")

        assert await ended(stage, "call_2") == RecordedEffect(None, None)
        assert await ended(stage, "call_1") is None


async def test_of_a_time_whose_notes_are_gone_nobody_says_that_nothing_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stage(tmp_path) as stage:
        await with_table(stage)
        await stage.exec(in_call("call_1"), "INSERT INTO t VALUES (1)")
    monkeypatch.setattr(effect_records, "RETENTION", timedelta())
    async with open_stage(tmp_path) as stage:
        await stage.exec(in_call("call_2"), "INSERT INTO t VALUES (2)")

        with pytest.raises(HostError) as forgotten:
            await ended(stage, "call_1")
        assert forgotten.value.error_code == "effect.note_forgotten"
        assert await ended(stage, "call_2") == RecordedEffect(None, None)
        assert await ended(stage, "call_3", started_at="2999-01-01T00:00:00+00:00") is None
