"""Durable values by key, on both engines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock.capabilities.services.keyvalue_rows import KeyValueLimits, delete_all_values

from .stage import open_stage, plugin, wire_code

NOTES, OTHER = plugin("notes"), plugin("other")
NOTHING = {"value": None, "found": False}


@pytest.mark.req("S-09", "storage")
@pytest.mark.req("S-16")
async def test_a_value_outlives_the_host_and_is_its_plugins_and_tenants_own(
    tmp_path: Path, database_address: str
) -> None:
    value = {"text": "ñ\0🦊", "list": [1, 2.5, None, True], "deep": {"a": {}}}
    async with open_stage(tmp_path, store=database_address) as stage:
        assert await stage.ask(NOTES, "keyvalue.put", key="k/ü", value=value) == {}
        await stage.ask(NOTES, "keyvalue.put", key="nothing", value=None)
    async with open_stage(tmp_path, store=database_address) as stage:
        assert await stage.ask(NOTES, "keyvalue.get", key="k/ü") == {"value": value, "found": True}
        assert await stage.ask(NOTES, "keyvalue.get", key="nothing") == {"value": None, "found": True}
        assert await stage.ask(OTHER, "keyvalue.get", key="k/ü") == NOTHING
        assert await stage.ask(plugin("notes", tenant="theirs"), "keyvalue.get", key="k/ü") == NOTHING
        await stage.ask(NOTES, "keyvalue.put", key="k/ü", value="new")
        assert (await stage.ask(NOTES, "keyvalue.get", key="k/ü"))["value"] == "new"
        assert await stage.ask(NOTES, "keyvalue.delete", key="k/ü") == {"deleted": True}
        assert await stage.ask(NOTES, "keyvalue.delete", key="k/ü") == {"deleted": False}
        assert await stage.ask(NOTES, "keyvalue.get", key="k/ü") == NOTHING


async def test_keys_are_listed_by_prefix_page_by_page(tmp_path: Path, database_address: str) -> None:
    keys = ["a", "a%", "a/1", "a/2", "a/3", "a_b", "ab", "b", "z\U0010ffff", "Ä"]
    async with open_stage(tmp_path, store=database_address) as stage:
        for key in keys:
            await stage.ask(NOTES, "keyvalue.put", key=key, value=1)
        await stage.ask(OTHER, "keyvalue.put", key="a/other", value=1)

        async def listed(**params: Any) -> list[str]:
            found: list[str] = []
            after: str | None = ""
            while after is not None:
                page = await stage.ask(NOTES, "keyvalue.list", after=after, **params)
                found, after = found + page["keys"], page["next"]
            return found

        assert await listed() == sorted(keys)
        assert await listed(limit=1) == sorted(keys)
        assert await listed(prefix="a/", limit=2) == ["a/1", "a/2", "a/3"]
        assert await listed(prefix="a%") == ["a%"]
        assert await listed(prefix="z\U0010ffff") == ["z\U0010ffff"]
        assert await listed(prefix="\U0010ffff") == []
        assert (await stage.ask(NOTES, "keyvalue.list", prefix="a/", limit=3))["next"] is None


async def test_a_plugin_keeps_no_more_than_it_may_and_can_make_room(tmp_path: Path, database_address: str) -> None:
    limits = KeyValueLimits(bytes=5_000, keys=4)
    async with open_stage(tmp_path, store=database_address, values=limits) as stage:
        for key in "abcd":
            await stage.ask(NOTES, "keyvalue.put", key=key, value="x" * 1_000)

        too_many = await stage.refused(NOTES, "keyvalue.put", key="e", value=1)
        too_much = await stage.refused(NOTES, "keyvalue.put", key="a", value="x" * 3_000)

        assert too_many.error_code == too_much.error_code == "keyvalue.full"
        assert (await stage.ask(NOTES, "keyvalue.get", key="a"))["value"] == "x" * 1_000
        await stage.ask(OTHER, "keyvalue.put", key="a", value="x" * 3_000)
        await stage.ask(NOTES, "keyvalue.delete", key="b")
        await stage.ask(NOTES, "keyvalue.delete", key="c")
        await stage.ask(NOTES, "keyvalue.put", key="a", value="x" * 3_000)
        await stage.ask(NOTES, "keyvalue.put", key="a", value="small")


async def test_many_puts_at_once_are_counted_right(tmp_path: Path, database_address: str) -> None:
    async with open_stage(tmp_path, store=database_address, values=KeyValueLimits(keys=20)) as stage:
        puts = (stage.ask(NOTES, "keyvalue.put", key=f"k{n % 25}", value=n) for n in range(75))
        results = await asyncio.gather(*puts, return_exceptions=True)

        kept = (await stage.ask(NOTES, "keyvalue.list"))["keys"]
        assert len(kept) == 20
        assert sum(isinstance(result, Exception) for result in results) == 15
        for key in kept:
            await stage.ask(NOTES, "keyvalue.delete", key=key)
        total = await stage.database.read(lambda tx: tx.one("SELECT bytes, keys FROM plugin_value_totals"))
        assert total == {"bytes": 0, "keys": 0}


async def test_uninstalling_forgets_a_plugins_values_of_all_tenants(tmp_path: Path, database_address: str) -> None:
    theirs = plugin("notes", tenant="theirs")
    async with open_stage(tmp_path, store=database_address, values=KeyValueLimits(keys=1)) as stage:
        for asking in (NOTES, theirs, OTHER):
            await stage.ask(asking, "keyvalue.put", key="k", value=1)

        assert await stage.database.write(lambda tx: delete_all_values(tx, "notes")) == 2

        assert await stage.ask(NOTES, "keyvalue.get", key="k") == NOTHING
        assert await stage.ask(theirs, "keyvalue.get", key="k") == NOTHING
        assert (await stage.ask(OTHER, "keyvalue.get", key="k"))["found"]
        await stage.ask(NOTES, "keyvalue.put", key="another", value=1)


async def test_what_cannot_be_kept_is_refused_in_words(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"key": "k"}, {"key": "", "value": 1}, {"key": "k" * 513, "value": 1}, {"key": "a\0b", "value": 1},
        {"key": "\ud800", "value": 1}, {"key": None, "value": 1}, {"key": "k", "value": "x" * (1 << 20)},
        {"key": "k", "value": float("inf")}, {"key": "k", "value": "\ud800"}, {"key": "k", "value": 2**64},
    ]  # fmt: skip
    async with open_stage(tmp_path) as stage:
        for params in wrong:
            assert wire_code(await stage.refused(NOTES, "keyvalue.put", **params)) == -32602, params
        for params in ({"limit": 0}, {"limit": 1_001}, {"limit": "all"}, {"prefix": 7}):
            assert wire_code(await stage.refused(NOTES, "keyvalue.list", **params)) == -32602, params
