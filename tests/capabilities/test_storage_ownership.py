"""Whose tables are whose: by plugin and by tenant, with write, with read, and with neither."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from paddock.capabilities.sql.database_pool import delete_plugin_files
from paddock.capabilities.sql.paths import database_file, full_table_name
from paddock.core.errors import Denied, HostError
from paddock.core.events.capabilities import PluginCapabilityDenied
from paddock.core.events.plugin_runtime import PluginStorageDenied
from paddock.core.ids import DEFAULT_TENANT, PluginName, Tenant
from paddock.manifest.model import Dialect

from .stage import SQL, open_stage, plugin, wire_code

A, A_B = plugin("a", SQL), plugin("a-b", SQL)


@pytest.mark.req("G-31", "create table")
async def test_a_table_has_its_full_name_for_people_and_a_plain_one_for_its_plugin(tmp_path: Path) -> None:
    pi = plugin("oh-my-pi", SQL, dialect=Dialect.KAGED)
    async with open_stage(tmp_path) as stage:
        await stage.exec(pi, "CREATE TABLE presets (id TEXT PRIMARY KEY, name TEXT)")

        assert await stage.storage.tables(DEFAULT_TENANT, pi.plugin) == ("plugin_oh_my_pi_presets",)
        assert await stage.ask(pi, "storage.schema") == {"tables": ["presets"]}
        assert "plugin_" not in str(await stage.rows(pi, "SELECT * FROM sqlite_master"))
        error = await stage.refused(pi, "storage.exec", sql="INSERT INTO presets (nome) VALUES (1)")
        assert "plugin_" not in str((error.message, error.hint, error.details))


@pytest.mark.req("G-39")
async def test_plugins_whose_prefixes_overlap_never_see_or_drop_each_others_tables(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(A_B, "CREATE TABLE t (x)")
        await stage.exec(A, "CREATE TABLE b_t (x)")  # plugin_a_ + b_t is plugin_a_b_ + t
        await stage.exec(A, "INSERT INTO b_t VALUES ('of a')")

        assert await stage.rows(A_B, "SELECT count(*) FROM t") == [(0,)]
        assert await stage.ask(A, "storage.schema") == {"tables": ["b_t"]}
        assert await stage.ask(A_B, "storage.schema") == {"tables": ["t"]}
        assert full_table_name("a", "b_t") == full_table_name("a-b", "t"), "which is why a prefix is not a wall"
        assert (await stage.refused(A, "storage.exec", sql="DROP TABLE t")).error_code == "storage.sql"

        assert await stage.storage.drop(DEFAULT_TENANT, A.plugin) == ("plugin_a_b_t",)
        assert await stage.ask(A_B, "storage.schema") == {"tables": ["t"]}


async def test_two_tenants_of_one_plugin_share_nothing(tmp_path: Path) -> None:
    ours, theirs = plugin("a", SQL, tenant="ours"), plugin("a", SQL, tenant="theirs")
    async with open_stage(tmp_path) as stage:
        await stage.exec(ours, "CREATE TABLE t (x)")
        assert await stage.ask(theirs, "storage.schema") == {"tables": []}


@pytest.mark.req("G-05", "-32003")
@pytest.mark.req("G-31", "cross-schema access")
async def test_reaching_for_another_plugins_table_is_denied_recorded_and_survived(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(A_B, "CREATE TABLE t (x)")
        await stage.exec(A, "CREATE TABLE own (x)")

        error = await stage.refused(A, "storage.query", sql="SELECT * FROM plugin_a_b_t WHERE x = 'secret'")

        assert wire_code(error) == -32003
        assert [event.sql for event in stage.recorded(PluginStorageDenied)] == [
            "SELECT * FROM plugin_a_b_t WHERE x = ?"
        ]
        assert await stage.rows(A, "SELECT count(*) FROM own") == [(0,)]


@pytest.mark.req("G-05", "-32003")
@pytest.mark.req("G-42")
@pytest.mark.req("G-31", "ddl without write")
async def test_read_permission_reads_and_does_nothing_else(tmp_path: Path) -> None:
    reader = plugin("a", ("storage:read",))
    async with open_stage(tmp_path) as stage:
        await stage.exec(A, "CREATE TABLE t (x)")
        await stage.exec(A, "INSERT INTO t VALUES (1)")

        assert await stage.rows(reader, "SELECT x FROM t") == [(1,)]
        assert await stage.ask(reader, "storage.schema") == {"tables": ["t"]}
        for method in ("exec", "begin", "commit", "rollback"):
            error = await stage.refused(reader, f"storage.{method}", sql="CREATE TABLE u (x)", transaction="tx")
            assert (type(error), wire_code(error)) == (Denied, -32003)
        for sql in ("CREATE TABLE u (x)", "INSERT INTO t VALUES (2)", "DELETE FROM t", "DROP TABLE t"):
            assert wire_code(await stage.refused(reader, "storage.query", sql=sql)) == -32003
        assert await stage.rows(A, "SELECT x FROM t") == [(1,)]
        assert len(stage.recorded(PluginCapabilityDenied)) == 4
        assert len(stage.recorded(PluginStorageDenied)) == 4


@pytest.mark.req("G-42")
async def test_write_permission_includes_reading_and_a_query_still_cannot_write(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(A, "CREATE TABLE t (x)")
        await stage.exec(A, "INSERT INTO t VALUES (1)")
        insert = "INSERT INTO t VALUES (1)"  # known to the host as a statement that may run, by exec

        assert wire_code(await stage.refused(A, "storage.query", sql=insert)) == -32003
        for sql in ("WITH x AS (SELECT 2) INSERT INTO t SELECT * FROM x", "DELETE FROM t RETURNING x", "ANALYZE"):
            assert wire_code(await stage.refused(A, "storage.query", sql=sql)) == -32003
        assert await stage.rows(A, "SELECT x FROM t") == [(1,)]


@pytest.mark.req("G-31", "cleanup on uninstall")
async def test_dropping_a_plugins_storage_leaves_no_file_and_the_next_one_starts_empty(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(A, "CREATE TABLE t (x)")
        await stage.exec(A, "CREATE VIRTUAL TABLE ft USING fts5(x)")
        begun = await stage.ask(A, "storage.begin")

        dropped = await stage.storage.drop(DEFAULT_TENANT, A.plugin)

        assert dropped == ("plugin_a_ft", "plugin_a_t")
        assert list((tmp_path / "storage" / "default").iterdir()) == []
        over = await stage.refused(A, "storage.commit", **begun)
        assert over.error_code in ("storage.transaction_over", "storage.no_transaction")
        assert await stage.ask(A, "storage.schema") == {"tables": []}
        assert await stage.storage.drop(Tenant("nobody"), PluginName("never")) == ()


def test_a_command_drops_the_files_of_all_tenants_without_opening_them(tmp_path: Path) -> None:
    for name in ("one/a.sqlite", "one/a.sqlite-wal", "two/a.sqlite", "two/a-b.sqlite"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert delete_plugin_files(tmp_path, "a") == 2
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["a-b.sqlite"]
    assert delete_plugin_files(tmp_path / "nowhere", "a") == 0


async def test_files_are_nobody_elses_to_read_and_no_link_is_followed(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(A, "CREATE TABLE t (x)")
        file = database_file(tmp_path / "storage", "default", "a")
        for one in file.parent.iterdir():
            assert stat.S_IMODE(one.stat().st_mode) == 0o600, one
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        (file.parent / "linked.sqlite").symlink_to(file)
        os.mkfifo(file.parent / "piped.sqlite")
        for name in ("linked", "piped"):
            error = await stage.refused(plugin(name, SQL), "storage.schema")
            assert error.error_code == "storage.unavailable"
            assert str(tmp_path) not in error.message


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a..b", ".hidden", "a\0b", "x" * 129, "ä", "a b", "-x"])
def test_a_name_that_could_lead_elsewhere_names_no_file(name: str, tmp_path: Path) -> None:
    for tenant, of in ((name, "a"), ("default", name)):
        with pytest.raises(HostError) as refused:
            database_file(tmp_path, tenant, of)
        assert refused.value.error_code == "storage.name"
