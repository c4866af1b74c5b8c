"""SQL that tries to get out: nothing of a neighbour is seen or changed, and what reaches outside is refused."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from paddock.capabilities.sql.limits import StorageLimits
from paddock.core.errors import CallerError, Conflict, Denied, PaddockError
from paddock.core.events.plugin_runtime import PluginStorageDenied

from .hostile_sql import DENIED, GREEDY, HARMLESS
from .stage import SQL, Stage, open_stage, plugin, wire_code

CANARY = "the neighbour's secret"
PATIENT = StorageLimits(file_bytes=8 << 20, statement_bytes=64 << 20)
HURRIED = replace(PATIENT, statement_seconds=0.5)
ENDED = {"storage.too_slow", "storage.too_big", "storage.full", "storage.sql", "storage.result_too_large"}

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"

INTRUDER, NEIGHBOUR = plugin("a", SQL), plugin("a-b", SQL)


@asynccontextmanager
async def two_plugins(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    """The intruder has a table and a full-text table; the neighbour has a secret, and still has it at the end."""
    async with open_stage(tmp_path, limits=PATIENT) as stage:
        await stage.exec(NEIGHBOUR, "CREATE TABLE secrets (a)")
        await stage.exec(NEIGHBOUR, "INSERT INTO secrets VALUES (?)", CANARY)
        await stage.exec(INTRUDER, "CREATE TABLE own (a)")
        await stage.exec(INTRUDER, "CREATE VIRTUAL TABLE ft USING fts5(a)")
        yield stage
        await nothing_happened(stage)
        assert not (tmp_path / "elsewhere").exists()


@asynccontextmanager
async def little_time(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    """The same two with little time for a statement: only for the greedy one, since a busy machine is slow too."""
    async with two_plugins(tmp_path):
        pass
    async with open_stage(tmp_path, limits=HURRIED) as stage:
        yield stage
    async with open_stage(tmp_path, limits=PATIENT) as stage:
        await nothing_happened(stage)


async def nothing_happened(stage: Stage) -> None:
    assert await stage.rows(NEIGHBOUR, "SELECT * FROM secrets") == [(CANARY,)]
    assert await stage.rows(INTRUDER, "SELECT count(*) FROM own") == [(0,)], "nothing half done is kept"


def spelled(sql: str, tmp_path: Path) -> str:
    places = {"{neighbour}": tmp_path / "storage/default/a-b.sqlite", "{elsewhere}": tmp_path / "elsewhere"}
    for word, place in places.items():
        sql = sql.replace(word, str(place))
    return sql


def test_the_corpus_is_large_enough() -> None:
    assert len(DENIED) + len(GREEDY) >= 80
    assert len(set(DENIED)) == len(DENIED)


@pytest.mark.req("G-39")
@pytest.mark.parametrize("sql", DENIED)
async def test_a_statement_that_reaches_outside_is_refused_and_recorded(sql: str, tmp_path: Path) -> None:
    async with two_plugins(tmp_path) as stage:
        sql = spelled(sql, tmp_path)

        for method in ("storage.exec", "storage.query"):
            error = await stage.refused(INTRUDER, method, sql=sql)

            assert isinstance(error, Denied), error
            assert wire_code(error) == -32003
            assert CANARY not in str(error.details)
        assert len(stage.recorded(PluginStorageDenied)) == 2


@pytest.mark.parametrize(
    "sql",
    # Each goes on until it is ended, so one of three is enough for a day.
    [pytest.param(sql, marks=pytest.mark.slow if at % 3 else ()) for at, sql in enumerate(GREEDY.values())],
    ids=GREEDY.keys(),
)
async def test_a_statement_that_wants_too_much_is_ended_and_keeps_nothing(sql: str, tmp_path: Path) -> None:
    async with little_time(tmp_path) as stage:
        started = time.monotonic()

        error = await stage.refused(INTRUDER, "storage.exec", sql=sql)

        assert isinstance(error, CallerError) and not isinstance(error, Denied | Conflict), error
        assert error.error_code in ENDED
        assert time.monotonic() - started < 10
        assert not stage.denials()


@pytest.mark.req("G-39")
@pytest.mark.parametrize("sql", HARMLESS)
async def test_what_looks_like_a_way_out_finds_only_its_own_tables(sql: str, tmp_path: Path) -> None:
    async with two_plugins(tmp_path) as stage:
        try:
            answer = await stage.ask(INTRUDER, "storage.exec", sql=spelled(sql, tmp_path))
        except PaddockError as error:
            assert isinstance(error, CallerError), error
            answer = error.message

        assert CANARY not in json.dumps(answer)
        assert "root:" not in json.dumps(answer)


async def test_views_of_views_of_views_are_not_compiled_without_end(tmp_path: Path) -> None:
    async with two_plugins(tmp_path) as stage:
        await stage.exec(INTRUDER, "CREATE VIEW v0 AS SELECT 1 AS a")
        for level in range(1, 16):
            await stage.exec(INTRUDER, f"CREATE VIEW v{level} AS SELECT x.a FROM v{level - 1} x, v{level - 1} y")
    async with open_stage(tmp_path, limits=HURRIED) as stage:
        started = time.monotonic()

        error = await stage.refused(INTRUDER, "storage.query", sql="SELECT count(*) FROM v15")

        assert error.error_code == "storage.too_slow"
        assert time.monotonic() - started < 10


async def test_a_statement_known_as_harmless_is_looked_at_again_when_its_view_has_changed(tmp_path: Path) -> None:
    async with two_plugins(tmp_path) as stage:
        bomb = ", ".join(f"hex(zeroblob(400000 + {n})) AS c{n}" for n in range(400))
        await stage.exec(INTRUDER, "CREATE VIEW v AS SELECT 1 AS a")
        assert await stage.rows(INTRUDER, "SELECT * FROM v") == [(1,)]
        await stage.exec(INTRUDER, "DROP VIEW v")
        await stage.exec(INTRUDER, f"CREATE VIEW v AS SELECT {bomb}")

        error = await stage.refused(INTRUDER, "storage.query", sql="SELECT * FROM v")

        assert error.error_code == "storage.too_big"


FAILS_BADLY = {
    "it asks for that": "INSERT OR ROLLBACK INTO one VALUES (1)",
    "it is too slow": f"INSERT INTO own {ENDLESS}",
}


@pytest.mark.parametrize("sql", FAILS_BADLY.values(), ids=FAILS_BADLY.keys())
async def test_a_statement_known_as_harmless_is_looked_at_again_when_sqlite_took_a_changed_view_back(
    sql: str, tmp_path: Path
) -> None:
    async with two_plugins(tmp_path) as stage:
        bomb = ", ".join(f"hex(zeroblob(400000 + {n})) AS c{n}" for n in range(400))
        await stage.exec(INTRUDER, "CREATE TABLE one (a UNIQUE)")
        await stage.exec(INTRUDER, "INSERT INTO one VALUES (1)")
        await stage.exec(INTRUDER, f"CREATE VIEW v AS SELECT {bomb}")
        begun = await stage.ask(INTRUDER, "storage.begin")
        await stage.exec(INTRUDER, "DROP VIEW v", **begun)
        await stage.exec(INTRUDER, "CREATE VIEW v AS SELECT 1 AS a", **begun)
        assert await stage.rows(INTRUDER, "SELECT * FROM v", **begun) == [(1,)]

        await stage.refused(INTRUDER, "storage.exec", sql=sql, **begun)

        assert (await stage.refused(INTRUDER, "storage.commit", **begun)).error_code == "storage.transaction_over"
        assert (await stage.refused(INTRUDER, "storage.query", sql="SELECT * FROM v")).error_code == "storage.too_big"


async def test_a_trigger_or_view_cannot_do_what_its_author_may_not(tmp_path: Path) -> None:
    async with two_plugins(tmp_path) as stage:
        for body in (
            "SELECT load_extension('x')",
            "DELETE FROM sqlite_master",
            "INSERT INTO plugin_a_b_secrets VALUES (1)",
        ):
            await stage.exec(INTRUDER, f"CREATE TRIGGER t AFTER INSERT ON own BEGIN {body}; END")
            error = await stage.refused(INTRUDER, "storage.exec", sql="INSERT INTO own VALUES (1)")
            assert wire_code(error) == -32003, body
            await stage.exec(INTRUDER, "DROP TRIGGER t")
        await stage.exec(INTRUDER, "CREATE VIEW seen AS SELECT * FROM pragma_database_list")
        assert wire_code(await stage.refused(INTRUDER, "storage.query", sql="SELECT * FROM seen")) == -32003


async def test_a_full_text_table_cannot_be_pointed_behind_the_tables(tmp_path: Path) -> None:
    async with two_plugins(tmp_path) as stage:
        await stage.exec(
            INTRUDER, "CREATE VIRTUAL TABLE peek USING fts5(name, content='dbstat', content_rowid='pageno')"
        )
        read = await stage.refused(INTRUDER, "storage.query", sql="SELECT * FROM peek")
        rebuilt = await stage.refused(INTRUDER, "storage.exec", sql="INSERT INTO peek(peek) VALUES ('rebuild')")
        assert "pageno" not in read.message + rebuilt.message


@pytest.mark.req("G-29", "plugin.storage_denied")
async def test_the_record_of_a_refusal_holds_the_statement_without_the_data_in_it(tmp_path: Path) -> None:
    async with two_plugins(tmp_path) as stage:
        sql = "INSERT /* card */ INTO plugin_x_cards VALUES ('4111 1111', x'beef', 42, \"an odd text\", own) -- 4111"

        await stage.refused(INTRUDER, "storage.exec", sql=sql)

        (event,) = stage.recorded(PluginStorageDenied)
        assert (event.name, event.sql) == ("a", "INSERT INTO plugin_x_cards VALUES (?, ?, ?, ?, own)")


async def test_a_nul_or_half_a_character_in_a_statement_is_refused_in_words(tmp_path: Path) -> None:
    async with two_plugins(tmp_path) as stage:
        for sql in ("SELECT 1\0; ATTACH 'x' AS y", "SELECT '\ud800'", "", 7, None, ["SELECT 1"], "x" * 100_001):
            error = await stage.refused(INTRUDER, "storage.exec", sql=sql)
            assert wire_code(error) == -32602, sql
