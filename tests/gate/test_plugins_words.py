"""What a plugin writes into its answer may be about anybody: the ledger keeps it bounded, where it can be erased."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, made_by

from paddock.ledger.entry import LedgerEntry

NAME = "Erika Mustermann"


async def entry_of(tmp_path: Path, answer: dict[str, Any]) -> LedgerEntry:
    """What the ledger says of a call with this answer."""
    office = Office(tmp_path)
    office.functions["look"] = lambda: answer
    async with office.open() as host:
        await host.call("mail.look", {}, context=made_by(ANN))
    (entry,) = [entry for entry in office.ledger() if entry.type == "call.ended"]
    return entry


@pytest.mark.req("K-17", "metrics")
@pytest.mark.req("K-17", "nondeterminism")
@pytest.mark.req("K-17", "model")
async def test_what_a_plugin_says_of_itself_is_kept_and_can_be_erased(tmp_path: Path) -> None:
    disclosed = {"is_nondeterministic": True, "reasons": [NAME]}
    entry = await entry_of(tmp_path, {"metrics": {"patient": NAME}, "nondeterminism": disclosed, "model": NAME})

    assert entry.data["plugin_metrics"] == {"patient": NAME}
    assert (entry.data["nondeterminism"], entry.data["model"]) == (disclosed, NAME)
    assert NAME not in str(entry.facts)


async def test_of_what_is_large_the_ledger_keeps_the_size_and_a_hash(tmp_path: Path) -> None:
    entry = await entry_of(tmp_path, {"metrics": {"words": "x" * 5000}, "nondeterminism": {"reasons": ["y" * 90_000]}})

    assert entry.data["plugin_metrics"]["size"] == 5012
    assert entry.data["plugin_metrics"]["hash"].startswith("sha256:")
    assert set(entry.data["nondeterminism"]) == {"size", "hash"}
    assert len(str(entry.to_json())) < 4000


@pytest.mark.parametrize("answer", [{}, {"metrics": 7, "nondeterminism": "yes", "model": ["x"]}])
async def test_an_answer_that_says_nothing_of_itself_leaves_these_empty(tmp_path: Path, answer: dict[str, Any]) -> None:
    entry = await entry_of(tmp_path, answer)

    assert [entry.data[name] for name in ("plugin_metrics", "nondeterminism", "model", "events_hash")] == [None] * 4
    assert entry.data["metrics"] == {}
