"""The test kit's tables say yes and no where the host's do."""

from __future__ import annotations

import sqlite3

import pytest
from tests.capabilities.honest_sql import STORIES
from tests.capabilities.hostile_sql import DENIED

from fixtures.all_cases import all_cases
from paddock_sdk.faults import PluginFault
from paddock_sdk.testing.fake_tables import FakeTables

# What Python's own SQLite does not know is no matter of what is allowed.
NEWER = ("no such function", "near ", "no such module: fts5", "no such column", "unknown table option")


# These take SQLite's defensive mode, which Python does not always have.
ONLY_AT_THE_HOST = {
    *("CREATE TABLE x (a DEFAULT (load_extension('x')))", "INSERT INTO ft_data VALUES (1, x'00')"),
    *("DELETE FROM ft_config", "DROP TABLE ft_data"),
}


@pytest.fixture
def tables() -> FakeTables:
    tables = FakeTables(writable=True)
    for sql in ("CREATE TABLE own (a)", "CREATE VIRTUAL TABLE ft USING fts5(a)"):
        tables.answer("exec", {"sql": sql})
    return tables


@all_cases("operation", ["exec", "query"])
@all_cases("sql", [sql for sql in DENIED if sql not in ONLY_AT_THE_HOST])
def test_what_the_host_refuses_never_passes(tables: FakeTables, sql: str, operation: str) -> None:
    with pytest.raises(PluginFault):
        tables.answer(operation, {"sql": sql})
    assert tables.rows("SELECT count(*) AS n FROM own") == [{"n": 0}]


@pytest.mark.parametrize("sql", ["ATTACH '/x' AS y", "PRAGMA user_version = 5", "CREATE TEMP TABLE x (a)", "BEGIN"])
def test_what_reaches_outside_has_the_code_that_it_has_at_the_host(tables: FakeTables, sql: str) -> None:
    with pytest.raises(PluginFault) as refused:
        tables.answer("exec", {"sql": sql})
    assert refused.value.error_code == -32003


@all_cases("name", STORIES)
def test_sql_as_authors_write_it_finds_what_it_finds_at_the_host(name: str) -> None:
    tables, story = FakeTables(writable=True), STORIES[name]
    try:
        for statement in story.statements[:-1]:
            tables.answer("exec", {"sql": statement})
        found = tables.answer("query", {"sql": story.statements[-1]})
    except PluginFault as fault:
        if any(words in fault.message for words in NEWER):
            pytest.skip(f"SQLite {sqlite3.sqlite_version}: {fault.message}")
        raise
    assert [tuple(row.values()) for row in found["rows"]] == story.finds


def test_a_query_changes_nothing_and_reading_alone_grants_no_writing(tables: FakeTables) -> None:
    for sql in ("INSERT INTO own VALUES (1)", "CREATE TABLE x (a)", "DROP TABLE own", "UPDATE own SET a = 1"):
        with pytest.raises(PluginFault):
            tables.answer("query", {"sql": sql})
    for operation in ("exec", "begin"):
        with pytest.raises(PluginFault) as refused:
            FakeTables(writable=False).answer(operation, {"sql": "CREATE TABLE x (a)"})
        assert refused.value.error_code == -32003


def test_a_statement_beside_an_open_transaction_does_not_join_it(tables: FakeTables) -> None:
    begun = tables.answer("begin", {})
    tables.answer("exec", {"sql": "INSERT INTO own VALUES (1)", **begun})
    with pytest.raises(PluginFault) as busy:
        tables.answer("exec", {"sql": "INSERT INTO own VALUES (2)"})
    assert busy.value.data == {"code": "storage.busy"}
    tables.answer("rollback", begun)
    assert tables.answer("query", {"sql": "SELECT * FROM own"})["rows"] == []
    with pytest.raises(PluginFault) as over:
        tables.answer("commit", begun)
    assert over.value.data == {"code": "storage.no_transaction"}


def test_values_keys_and_what_a_statement_returns_are_as_at_the_host(tables: FakeTables) -> None:
    values = [None, 1, 1.5, "text", {"$base64": "AAH/"}, {"$number": "-Infinity"}]
    for value in values:
        assert tables.answer("query", {"sql": "SELECT ? AS v", "params": [value]})["rows"] == [{"v": value}]
    returned = tables.answer("exec", {"sql": "INSERT INTO own VALUES (7) RETURNING a, a"})
    assert returned == {"rows_affected": 1, "rows": [{"a": 7, "a_2": 7}], "columns": ["a", "a_2"]}
    tables.answer("exec", {"sql": "CREATE TABLE p (id INTEGER PRIMARY KEY)"})
    tables.answer("exec", {"sql": "CREATE TABLE c (p REFERENCES p (id))"})
    with pytest.raises(PluginFault) as broken:
        tables.answer("exec", {"sql": "INSERT INTO c VALUES (99)"})
    assert broken.value.data == {"code": "storage.constraint"}
