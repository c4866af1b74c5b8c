"""How much an effect asks of the store, counted and not timed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.test_once import note
from tests.gate.test_governed_calls import Office

from paddock.store.transaction import CheckedTransaction

TOGETHER = 64
SHARED = ("node_leases", "person_consents", "ledger_heads")
"""Tables of which one statement does for all effects that are written together."""


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of a unit of work, but for the details of calls, which are written beside them."""
    seen: list[str] = []
    attempt = CheckedTransaction._attempt  # pyright: ignore[reportPrivateUsage]

    def noted(self: CheckedTransaction, run: Any, sql: str, params: Any) -> Any:
        if "call_details" not in sql:
            seen.append(sql)
        return attempt(self, run, sql, params)

    monkeypatch.setattr(CheckedTransaction, "_attempt", noted)
    return seen


def on(table: str, statements: list[str]) -> dict[str, int]:
    """How many statements there were on a table, by their first word."""
    return Counter(sql.split()[0] for sql in statements if f" {table} " in f"{sql} ")


async def test_an_effect_takes_one_statement_to_start_and_one_to_end_and_shares_the_others(
    tmp_path: Path, statements: list[str]
) -> None:
    office = Office(tmp_path)
    async with office.open() as host:
        await note(host, None)
        statements.clear()
        await asyncio.gather(*(note(host, None) for _ in range(TOGETHER)))
        written = list(statements)
    assert on("effects", written) == {"INSERT": TOGETHER, "UPDATE": TOGETHER}
    assert all(sum(on(table, written).values()) <= TOGETHER / 4 for table in SHARED), written
    assert len(written) < 4 * TOGETHER
    assert len(office.done) == TOGETHER + 1


async def test_a_key_costs_an_effect_one_more_statement(tmp_path: Path, statements: list[str]) -> None:
    office = Office(tmp_path)
    async with office.open() as host:
        await note(host, None)
        statements.clear()
        await note(host, "k1")
        first = on("effects", statements)
        statements.clear()
        await note(host, "k1")
        again = on("effects", statements)
    assert (first, again) == ({"SELECT": 1, "INSERT": 1, "UPDATE": 1}, {"SELECT": 1})
