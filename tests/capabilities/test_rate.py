"""A plugin that must not do something too often asks the host first."""

from __future__ import annotations

from pathlib import Path

import pytest

from .stage import open_stage, plugin, wire_code

NOTES, OTHER = plugin("notes"), plugin("other")
YES = {"allowed": True, "retry_after": 0.0}


@pytest.mark.req("S-09", "rate")
@pytest.mark.req("S-14")
async def test_a_bucket_lets_a_minutes_worth_through_and_then_says_how_long_to_wait(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        assert await stage.ask(NOTES, "rate.limit", bucket="mail", cost=50) == YES
        assert await stage.ask(NOTES, "rate.limit", bucket="mail", cost=10) == YES
        assert await stage.ask(NOTES, "rate.limit", bucket="mail") == {"allowed": False, "retry_after": 1.0}
        stage.clock.seconds += 1
        assert await stage.ask(NOTES, "rate.limit", bucket="mail") == YES


@pytest.mark.req("S-14")
async def test_buckets_are_apart_by_name_plugin_and_tenant(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        assert await stage.ask(NOTES, "rate.limit", bucket="mail", cost=60) == YES
        assert await stage.ask(NOTES, "rate.limit", bucket="post", cost=60) == YES
        assert await stage.ask(OTHER, "rate.limit", bucket="mail", cost=60) == YES
        assert await stage.ask(plugin("notes", tenant="theirs"), "rate.limit", bucket="mail", cost=60) == YES
        assert not (await stage.ask(NOTES, "rate.limit", bucket="mail"))["allowed"]


async def test_a_plugin_says_how_much_a_minute_holds(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        assert await stage.ask(NOTES, "rate.limit", bucket="slow", per_minute=1) == YES
        assert await stage.ask(NOTES, "rate.limit", bucket="slow", per_minute=1) == {
            "allowed": False,
            "retry_after": 60.0,
        }


@pytest.mark.parametrize(
    "params",
    [{}, {"bucket": ""}, {"bucket": "x", "cost": -1}, {"bucket": "x", "cost": 61}, {"bucket": "x", "per_minute": 0}],
)
async def test_what_cannot_be_asked_is_told(tmp_path: Path, params: dict[str, object]) -> None:
    async with open_stage(tmp_path) as stage:
        assert wire_code(await stage.refused(NOTES, "rate.limit", **params)) == -32602


async def test_it_takes_a_grant(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        assert wire_code(await stage.refused(plugin("notes", ()), "rate.limit", bucket="x")) == -32001


async def test_many_buckets_do_not_fill_the_memory(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.ask(NOTES, "rate.limit", bucket="first", cost=60)
        for number in range(256):
            await stage.ask(NOTES, "rate.limit", bucket=f"b{number}")
        assert await stage.ask(NOTES, "rate.limit", bucket="first", cost=60) == YES  # it was forgotten
