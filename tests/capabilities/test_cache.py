"""The cache: values with an end, each plugin's its own, within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.capabilities.services.cache import CacheLimits

from .stage import open_stage, plugin, wire_code

NOTES, OTHER = plugin("notes"), plugin("other")
NOTHING = {"value": None, "found": False}


@pytest.mark.req("S-09", "cache")
@pytest.mark.req("S-10")
async def test_a_value_is_there_until_its_time_is_over(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        value = {"a": [1, None, "x"], "b": 1.5}
        assert await stage.ask(NOTES, "cache.set", key="k", value=value, ttl=10) == {"ttl": 10}
        assert await stage.ask(NOTES, "cache.set", key="usual", value=None) == {"ttl": 300}

        stage.clock.seconds += 9.9
        assert await stage.ask(NOTES, "cache.get", key="k") == {"value": value, "found": True}
        stage.clock.seconds += 0.1
        assert await stage.ask(NOTES, "cache.get", key="k") == NOTHING
        assert await stage.ask(NOTES, "cache.get", key="usual") == {"value": None, "found": True}
        stage.clock.seconds += 300
        assert await stage.ask(NOTES, "cache.get", key="usual") == NOTHING


@pytest.mark.req("B-22", "caches")
async def test_a_cache_is_its_plugins_and_its_tenants_own(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.ask(NOTES, "cache.set", key="k", value=1)

        assert await stage.ask(OTHER, "cache.get", key="k") == NOTHING
        assert await stage.ask(plugin("notes", tenant="theirs"), "cache.get", key="k") == NOTHING
        assert await stage.ask(OTHER, "cache.delete", key="k") == {"deleted": False}
        assert await stage.ask(NOTES, "cache.delete", key="k") == {"deleted": True}
        assert await stage.ask(NOTES, "cache.get", key="k") == NOTHING


async def test_a_plugin_that_keeps_too_much_loses_what_it_used_least_recently(tmp_path: Path) -> None:
    async with open_stage(tmp_path, cache=CacheLimits(plugin_bytes=4_000, total_bytes=100_000)) as stage:
        for key in "abc":
            await stage.ask(NOTES, "cache.set", key=key, value="x" * 1_000)
        await stage.ask(NOTES, "cache.get", key="a")
        await stage.ask(NOTES, "cache.set", key="d", value="x" * 1_000)

        found = [key for key in "abcd" if (await stage.ask(NOTES, "cache.get", key=key))["found"]]
        assert found == ["a", "c", "d"]
        await stage.ask(NOTES, "cache.set", key="huge", value="x" * 5_000)
        assert await stage.ask(NOTES, "cache.get", key="huge") == NOTHING


async def test_whoever_keeps_most_gives_way_when_all_together_keep_too_much(tmp_path: Path) -> None:
    async with open_stage(tmp_path, cache=CacheLimits(plugin_bytes=10_000, total_bytes=10_000)) as stage:
        await stage.ask(OTHER, "cache.set", key="small", value="x" * 100)
        for number in range(50):
            await stage.ask(NOTES, "cache.set", key=f"k{number}", value="x" * 1_000)

        assert (await stage.ask(OTHER, "cache.get", key="small"))["found"]
        assert (await stage.ask(NOTES, "cache.get", key="k49"))["found"]
        stage.cache.forget("notes")
        assert await stage.ask(NOTES, "cache.get", key="k49") == NOTHING
        assert (await stage.ask(OTHER, "cache.get", key="small"))["found"]


@pytest.mark.parametrize(
    "params",
    [
        {"key": "k"},
        {"key": "", "value": 1},
        {"key": "k" * 513, "value": 1},
        {"key": 7, "value": 1},
        {"key": "k", "value": "x" * 1_100_000},
        {"key": "k", "value": float("nan")},
        {"key": "k", "value": 2**70},
        {"key": "k", "value": 1, "ttl": 0},
        {"key": "k", "value": 1, "ttl": -1},
        {"key": "k", "value": 1, "ttl": 86_401},
        {"key": "k", "value": 1, "ttl": True},
        {"key": "k", "value": 1, "ttl": float("nan")},
        {"key": "k", "value": 1, "ttl": "long"},
    ],
)
async def test_what_cannot_be_cached_is_refused_in_words(params: dict[str, object], tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        assert wire_code(await stage.refused(NOTES, "cache.set", **params)) == -32602
