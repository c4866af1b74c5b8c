"""Everyday SQL of plugin authors works as SQLite's own documentation says."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.core.errors import Conflict

from .honest_sql import STORIES
from .stage import SQL, open_stage, plugin

NOTES = plugin("notes", SQL)


def test_the_corpus_is_large_enough() -> None:
    assert len(STORIES) >= 40


@pytest.mark.req("G-05", "exec")
@pytest.mark.parametrize("name", STORIES)
async def test_sql_as_authors_write_it_works(name: str, tmp_path: Path) -> None:
    story = STORIES[name]
    async with open_stage(tmp_path) as stage:
        for statement in story.statements[:-1]:
            await stage.exec(NOTES, statement)

        assert await stage.rows(NOTES, story.statements[-1]) == story.finds
        assert not stage.denials()


@pytest.mark.req("G-05", "exec")
@pytest.mark.req("G-05", "query")
async def test_an_answer_names_its_columns_and_tells_how_many_rows_changed(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        made = await stage.exec(NOTES, "CREATE TABLE t (a, b)")
        inserted = await stage.exec(NOTES, "INSERT INTO t VALUES (1, 2), (3, 4)")
        returned = await stage.exec(NOTES, "UPDATE t SET b = 0 WHERE a = 1 RETURNING a, b")
        found = await stage.ask(NOTES, "storage.query", sql="SELECT a, b, a FROM t ORDER BY a")
        nothing = await stage.ask(NOTES, "storage.query", sql="SELECT a AS x, b FROM t WHERE a > 9")

    assert made == {"rows_affected": 0}
    assert inserted == {"rows_affected": 2}
    assert returned == {"rows_affected": 1, "rows": [{"a": 1, "b": 0}], "columns": ["a", "b"]}
    assert found["columns"] == ["a", "b", "a_2"]
    assert found["rows"][0] == {"a": 1, "b": 0, "a_2": 1}
    assert nothing == {"rows": [], "columns": ["x", "b"]}


@pytest.mark.req("G-05", "query")
async def test_every_kind_of_value_goes_in_and_comes_back(tmp_path: Path) -> None:
    values = [
        None, 0, -1, 2**63 - 1, -(2**63), 1.5, -0.25, "", "text\0with NUL", "🦊", {"$base64": "AAH/"},
        {"$number": "Infinity"}, {"$number": "-Infinity"}, "x" * 1_000_000,
    ]  # fmt: skip
    async with open_stage(tmp_path) as stage:
        for value in values:
            assert await stage.rows(NOTES, "SELECT ?", value) == [(value,)]
        assert await stage.rows(NOTES, "SELECT ?, ?", True, False) == [(1, 0)]
        named = await stage.ask(NOTES, "storage.query", sql="SELECT :a + :b AS c", params={"a": 1, "b": 2})
        assert named["rows"] == [{"c": 3}]
        assert await stage.rows(NOTES, "SELECT 0.0 / 0") == [(None,)], "SQLite has no NaN"


async def test_parameters_that_sqlite_cannot_keep_are_refused_in_words(tmp_path: Path) -> None:
    wrong = [[2**63], [{"a": 1}], [[1]], [{"$base64": "?"}], ["\ud800"], [1] * 5_001, "text", 7, ["x" * 1_100_000]]
    async with open_stage(tmp_path) as stage:
        for params in wrong:
            error = await stage.refused(NOTES, "storage.query", sql="SELECT ?", params=params)
            assert error.error_code == "invalid_params", params
        for params in ([], [1, 2], {"b": 1}):
            error = await stage.refused(NOTES, "storage.query", sql="SELECT :a", params=params)
            assert error.error_code == "storage.sql", params


@pytest.mark.req("G-05", "a transaction per call")
async def test_an_answer_larger_than_a_message_is_refused_and_what_was_done_is_taken_back(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (a)")
        for _ in range(4):
            await stage.exec(NOTES, "INSERT INTO t VALUES (hex(zeroblob(450000)))")

        asked = await stage.refused(NOTES, "storage.query", sql="SELECT a FROM t")
        changed = await stage.refused(NOTES, "storage.exec", sql="DELETE FROM t RETURNING a")
        escaped = await stage.refused(NOTES, "storage.query", sql="SELECT ?", params=["\1" * 700_000])

        assert {asked.error_code, changed.error_code, escaped.error_code} == {"storage.result_too_large"}
        assert "LIMIT" in asked.hint
        assert await stage.rows(NOTES, "SELECT count(*) FROM t") == [(4,)]


@pytest.mark.req("G-05", "a transaction per call")
async def test_a_statement_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (a UNIQUE)")

        error = await stage.refused(NOTES, "storage.exec", sql="INSERT INTO t VALUES (1), (2), (1)")

        assert isinstance(error, Conflict)
        assert "UNIQUE" in error.message
        assert await stage.rows(NOTES, "SELECT count(*) FROM t") == [(0,)]


@pytest.mark.req("G-05", "schema")
async def test_what_was_written_is_there_when_the_host_comes_back(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (a)")
        await stage.exec(NOTES, "INSERT INTO t VALUES ('kept')")
    async with open_stage(tmp_path) as stage:
        assert await stage.rows(NOTES, "SELECT a FROM t") == [("kept",)]
        assert await stage.ask(NOTES, "storage.schema") == {"tables": ["t"]}
