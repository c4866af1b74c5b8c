"""How much memory a plugin's SQL can make the host take, and that nobody is blamed for a neighbour's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import apsw
import pytest

from paddock.capabilities.sql.limits import MAX_VALUE_BYTES, StorageLimits

from .stage import SQL, Stage, open_stage, plugin

MIB = 1 << 20
GREEDY, MODEST = plugin("greedy", SQL), plugin("modest", SQL)
LONG = "a" * MAX_VALUE_BYTES
ESCAPED = "\x01" * MAX_VALUE_BYTES  # six times as long in JSON
ROWS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000)"
OFTEN = ", ".join(["?1"] * 120)

HUNGRY: dict[str, tuple[str, list[Any]]] = {
    "replacing one by many": ("SELECT length(replace(?1, 'a', ?2))", [LONG, "b" * 850]),
    "replacing twice": ("SELECT length(replace(replace(?1, 'a', ?2), 'b', ?2))", ["a" * 1000, "b" * 1000]),
    "joining": (f"SELECT length(concat({OFTEN}))", [LONG]),
    "an array": (f"SELECT length(json_array({OFTEN}))", [ESCAPED]),
    "an array in binary": (f"SELECT length(jsonb_array({OFTEN}))", [ESCAPED]),
    "an object": (f"SELECT length(json_object({OFTEN}))", [ESCAPED]),
    "many rows in an array": (f"{ROWS} SELECT length(json_group_array(?1)) FROM c", [ESCAPED]),
    "many rows in an object": (f"{ROWS} SELECT length(json_group_object(?1, ?1)) FROM c", [ESCAPED]),
    "many rows in binary": (f"{ROWS} SELECT length(jsonb_group_array(?1)) FROM c", [ESCAPED]),
}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path, limits=StorageLimits(statement_memory=64 * MIB)) as opened:
        yield opened


@pytest.mark.parametrize(("sql", "params"), HUNGRY.values(), ids=HUNGRY.keys())
async def test_no_statement_makes_the_host_take_much_memory(sql: str, params: list[Any], stage: Stage) -> None:
    await stage.rows(GREEDY, "SELECT 1")
    before = apsw.memory_used()
    apsw.memory_high_water(True)

    error = await stage.refused(GREEDY, "storage.query", sql=sql, params=params)

    assert error.error_code in ("storage.too_big", "storage.too_slow")
    assert apsw.memory_high_water() - before < 256 * MIB


@pytest.mark.parametrize("replaced", ["replace(?1, 'a', ?2)", "length(replace(?1, 'a', ?2))"])
async def test_what_a_function_makes_is_held_to_what_its_statement_may_hold(replaced: str, stage: Stage) -> None:
    texts = ["a" * 1000, "b" * 200]
    assert len((await stage.rows(GREEDY, f"SELECT {replaced}", *texts))[0]) == 1
    searching = " OR ".join(["?1 LIKE '%x%'"] * 100)  # so that it may hold a hundredth of 8 MiB

    error = await stage.refused(GREEDY, "storage.query", sql=f"SELECT {replaced} WHERE NOT ({searching})", params=texts)

    assert error.error_code == "storage.too_big"


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT count(*) FROM c", 5000),
        ("SELECT length(json_group_array(n)) FROM c", 23894),
        ("SELECT count(*) FROM c, (SELECT n FROM c LIMIT 100)", 500_000),
    ],
)
async def test_nobody_is_ended_for_what_a_neighbour_takes(sql: str, found: int, stage: Stage) -> None:
    greedy = True

    async def take() -> None:
        while greedy:
            await stage.refused(GREEDY, "storage.query", sql=HUNGRY["joining"][0], params=[LONG])

    taking = asyncio.create_task(take())
    try:
        for _ in range(15):
            assert await stage.rows(MODEST, f"{ROWS} {sql}") == [(found,)]
    finally:
        greedy = False
        await taking


async def test_honest_replacing_and_json_of_long_texts_still_work(stage: Stage) -> None:
    text = "line\n" * 100_000
    assert await stage.rows(MODEST, "SELECT length(replace(?, char(10), '<br>'))", text) == [(800_000,)]
    assert await stage.rows(MODEST, "SELECT length(json_object('text', ?))", "a" * 500_000) == [(500_011,)]
