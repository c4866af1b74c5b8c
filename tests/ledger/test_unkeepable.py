"""Names that no database keeps: what somebody is called, or calls a request, does not stop the record of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.ledger.chains import RANDOM, Chain, called, drafts

from fixtures.ledger_entries import list_recent
from paddock.core.clock import SystemClock
from paddock.core.events.index import PluginAudited
from paddock.core.events.plugin_runtime import PluginKilled
from paddock.ledger.write.append import TransactionLedger, append_entries
from paddock.ledger.write.lifespan import open_ledger
from paddock.store.database import Transaction, open_database, open_direct

CLOCK = SystemClock()
NAMES = ["req_\ud800 ü", "req_\0"]
KINDS = ["half a character", "NUL"]


@pytest.mark.parametrize("name", NAMES, ids=KINDS)
@pytest.mark.parametrize("place", ["request", "call", "principal", "tenant"])
async def test_a_name_that_is_no_text_is_mended_and_stops_nobody(
    database_address: str, tmp_path: Path, name: str, place: str
) -> None:
    told: dict[str, Any] = {"tenant": "default", "request": "req_1", "principal": "bob"}
    async with open_database(database_address) as database:
        async with open_ledger(database, CLOCK, RANDOM) as writer:
            for number in range(70):  # more than one statement
                writer.enqueue(called(number), **told)
            odd: dict[str, Any] = told | {place: name}
            writer.enqueue(called(70), **odd)
            writer.enqueue(called(71), **told)
        assert (writer.failing, writer.queued, writer.rows) == (None, 0, 72)
    chain = Chain(database_address, tmp_path)
    mended = name.encode(errors="replace").decode().replace("\0", "?")
    whose = mended if place == "tenant" else "default"
    assert {chain.verify(one).verdict for one in {"default", whose}} == {"sound"}
    with open_direct(database_address) as direct:
        entries = direct.read(lambda tx: list_recent(tx, tenant=whose))
    found = [{**entry._asdict(), "principal": entry.personal["principal"]}[place] for entry in entries]
    assert mended in found


@pytest.mark.parametrize("name", NAMES, ids=KINDS)
def test_a_plugin_whose_name_is_no_text_is_recorded_in_a_unit_of_work(
    database_address: str, tmp_path: Path, name: str
) -> None:
    def unit(tx: Transaction) -> None:
        append_entries(tx, drafts([called(1)]), RANDOM)
        TransactionLedger(tx, CLOCK, RANDOM, "default").record(PluginKilled(name), call=name, principal=name)
        append_entries(tx, drafts([called(3)]), RANDOM)

    with open_direct(database_address) as database:
        database.write(unit)
    assert (Chain(database_address, tmp_path).verify().rows, Chain(database_address, tmp_path).code()) == (3, 0)


def deep(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [deep(150), deep(5_000), {1, "x"}, 10**5_000], ids=["deep", "deeper", "a set", "digits"]
)
def test_whatever_an_event_holds_there_is_an_entry_of_it(sqlite_address: str, tmp_path: Path, value: Any) -> None:
    event = PluginAudited("notes", "noted", {"value": value}, None, None)
    chain = Chain(sqlite_address, tmp_path)
    chain.add(event, called(2))
    assert (chain.verify().rows, chain.code()) == (2, 0)
