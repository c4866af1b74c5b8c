"""Rows that somebody else wrote, chained as they should be, behind the last checkpoint: both verifiers name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.ledger.chains import Chain, new_chain

from fixtures.ledger_entries import list_recent
from fixtures.ledger_rows import insert_row
from paddock.core.action import Action
from paddock.core.errors import Conflict, HostError, PaddockError
from paddock.ledger.chain.startup_check import verify_since_checkpoint
from paddock.ledger.entry_hash import SealedEntry, commit_personal, entry_hash
from paddock.ledger.read.entries import (
    EntryFilter,
    call_history,
    find_entries,
    list_ended_calls,
    list_entries,
    list_names,
    list_types,
)
from paddock.ledger.write.chain_dictionary import ChainDictionary
from paddock.store.database import Transaction, open_database, open_direct

SALT = bytes(16)
ERASED = "ledger.erased"
FORGED: dict[str, dict[str, Any]] = {
    "facts that are no JSON": {"facts": "nonsense"},
    "facts that are no object": {"facts": "[1]"},
    "facts that are a number": {"facts": "1e9999"},
    "facts with a space": {"facts": '{"a": 1}'},
    "facts out of order": {"facts": '{"b":1,"a":2}'},
    "facts that are said twice": {"facts": '{"a":1,"a":2}'},
    "facts with a number written otherwise": {"facts": '{"a":1.0}'},
    "facts with half a character": {"facts": '{"a":"\\ud800"}'},
    "facts of a depth that nobody reads": {"facts": '{"a":' + "[" * 900 + "]" * 900 + "}"},
    "personal that is no JSON": {"personal": "nonsense"},
    "personal that is no object": {"personal": "[]"},
    "personal that is a text": {"personal": '"bob"'},
    "personal with a space": {"personal": '{"a": 1}'},
    "personal with half a character": {"personal": '{"a":"\\udfff"}'},
    "an erasing of nothing said": {"type": ERASED},
    "an erasing of no list": {"type": ERASED, "facts": '{"entries":1,"rows":7}'},
    "an erasing of no pairs": {"type": ERASED, "facts": '{"entries":1,"rows":[7]}'},
    "an erasing of three numbers": {"type": ERASED, "facts": '{"entries":1,"rows":[[7,7,7]]}'},
    "an erasing of texts": {"type": ERASED, "facts": '{"entries":1,"rows":[["7","7"]]}'},
    "an erasing of fractions": {"type": ERASED, "facts": '{"entries":1,"rows":[[7.5,7.5]]}'},
    "an erasing of what is true": {"type": ERASED, "facts": '{"entries":1,"rows":[[true,true]]}'},
    "an erasing from behind": {"type": ERASED, "facts": '{"entries":1,"rows":[[8,7]]}'},
    "an erasing before the first row": {"type": ERASED, "facts": '{"entries":8,"rows":[[0,7]]}'},
    "an erasing of itself": {"type": ERASED, "facts": '{"entries":1,"rows":[[31,31]]}'},
    "an erasing of what is to come": {"type": ERASED, "facts": '{"entries":1000000000,"rows":[[1,1000000000]]}'},
    "an erasing of more than it counts": {"type": ERASED, "facts": '{"entries":1,"rows":[[1,30]]}'},
    "an erasing that does not count": {"type": ERASED, "facts": '{"rows":[[7,7]]}'},
}


def put(chain: Chain, tenant: str = "default", **told: Any) -> None:
    """Write a row behind the last, and move the head on."""

    def unit(tx: Transaction) -> None:
        head = tx.one("SELECT seq, hash FROM ledger_heads WHERE tenant = ?", (tenant,))
        assert head is not None
        personal = told.get("personal")
        commitment = None if personal is None else commit_personal(SALT, personal.encode())
        row = SealedEntry(
            tenant, head["seq"] + 1, "evt_x", "2030", told.get("type", "x"), None, None, None, None,
            told.get("facts", "{}"), personal, SALT if personal else None, commitment, b"",
        )  # fmt: skip
        row = row._replace(hash=entry_hash(head["hash"], tenant, row.seq, row, row.facts.encode()))
        insert_row(tx, row)
        tx.execute("UPDATE ledger_heads SET seq = ?, hash = ? WHERE tenant = ?", (row.seq, row.hash, tenant))

    with open_direct(chain.address) as database:
        database.write(unit)


def read_all(chain: Chain) -> object:
    with open_direct(chain.address) as database:
        return database.read(list_recent)


async def test_a_forged_row_is_named_by_both_verifiers_and_shown_to_whoever_looks(
    database_address: str, tmp_path: Path
) -> None:
    chain = await new_chain(database_address, tmp_path / "state")
    with open_direct(chain.address) as database:
        (before,) = database.read(lambda tx: tx.all("SELECT seq, hash FROM ledger_heads"))
    for name, told in FORGED.items():
        put(chain, **told)
        finding = chain.verify()
        assert (finding.verdict, finding.seq, finding.id) == ("tampered", 31, "evt_x"), name
        assert chain.example() == 1, name
        if chain.embedded:
            assert chain.example_on_file() == 1, name
        with open_direct(chain.address) as database:
            last, *others = database.read(list_recent)
            assert database.read(lambda tx: find_entries(tx, "evt_x")) == [last]
            assert orjson.dumps(last.to_json()), name
            assert (last.seq, len(others)) == (31, 30), name
            database.write(lambda tx: tx.execute("DELETE FROM ledger WHERE seq = 31"))
            database.write(lambda tx: tx.execute("UPDATE ledger_heads SET seq = 30, hash = ?", (before["hash"],)))
    assert (chain.code(), chain.example()) == (0, 0)


FORGED_FROM_TEMPLATES = {
    "a number written otherwise": ("x", "{}", '{"a":\x01}', "1.0", '{"a":1.0}'),
    "a space in a value": ("x", "{}", '{"a":\x01}', "[1, 2]", '{"a":[1, 2]}'),
    "a space in the template": ("x", "{}", '{"a": \x01}', "1", '{"a": 1}'),
    "names out of order": ("x", "{}", '{"b":1,"a":\x01}', "1", '{"b":1,"a":1}'),
    "a minus before nothing": ("x", "{}", '{"a":\x01}', "-0", '{"a":-0}'),
    "listed as what it is not": ("approval.ended", '{"state":"expired"}', '{"a":\x01}', "1", '{"a":1}'),
    "an erasing of itself": (ERASED, "{}", '{"entries":1,"rows":\x01}', "[[31,31]]", '{"entries":1,"rows":[[31,31]]}'),
}


async def test_a_forged_row_that_comes_from_a_template_is_named_like_any_other(
    database_address: str, tmp_path: Path
) -> None:
    chain = await new_chain(database_address, tmp_path / "state")
    with open_direct(chain.address) as database:
        (before,) = database.read(lambda tx: tx.all("SELECT seq, hash FROM ledger_heads"))
    for name, (kind, listed, template, values, facts) in FORGED_FROM_TEMPLATES.items():
        put(chain, type=kind, facts=facts)

        def split(
            tx: Transaction, kind: str = kind, listed: str = listed, template: str = template, values: str = values
        ) -> None:
            number = ChainDictionary(tx, 1).kind(kind, listed)
            tx.execute("INSERT INTO ledger_templates VALUES (1, 77, ?, ?)", (b"", template))
            tx.execute("UPDATE ledger SET kind = ?, template = 77, facts = ? WHERE seq = 31", (number, values))

        with open_direct(chain.address) as database:
            database.write(split)
        finding = chain.verify()
        assert (finding.verdict, finding.seq, finding.id) == ("tampered", 31, "evt_x"), name
        chain.change(
            "DELETE FROM ledger WHERE seq = 31",
            "DELETE FROM ledger_templates WHERE template = 77",
        )
        with open_direct(chain.address) as database:
            database.write(lambda tx: tx.execute("UPDATE ledger_heads SET seq = 30, hash = ?", (before["hash"],)))
    assert chain.code() == 0


async def test_a_person_is_erased_beside_a_forged_row(sqlite_address: str, tmp_path: Path) -> None:
    chain = await new_chain(sqlite_address, tmp_path / "state")
    put(chain, personal='["bob"]')
    assert chain.erase("bob") == 18


async def test_a_row_that_holds_no_text_is_named_and_tells_whoever_looks_what_to_do(
    sqlite_address: str, tmp_path: Path
) -> None:
    chain = await new_chain(sqlite_address, tmp_path / "state")
    chain.change("UPDATE ledger SET facts = CAST(x'7b22ff227d' AS TEXT) WHERE seq = 7")
    finding = chain.verify()
    assert (finding.verdict, finding.seq, chain.example_on_file()) == ("tampered", 7, 1)
    for look in (chain.export, lambda: read_all(chain)):
        with pytest.raises(HostError) as said:
            look()
        assert (said.value.error_code, said.value.action) == ("ledger.broken", Action.of("ledger.verify"))


async def test_rows_emptied_by_hand_are_found_whatever_a_forged_entry_says_of_rows_to_come(
    sqlite_address: str, tmp_path: Path
) -> None:
    chain = await new_chain(sqlite_address, tmp_path / "state")
    put(chain, type=ERASED, facts='{"entries":1000000000,"rows":[[1,1000000000]]}')
    chain.change("UPDATE ledger SET personal = NULL, salt = NULL, principal = NULL WHERE seq = 7")
    assert chain.verify().verdict == "tampered"
    assert chain.example() == chain.example_on_file() == 1


UNCHECKED = {
    True: ("DROP TRIGGER IF EXISTS ledger_inserts_from_row_1",),
    False: ("ALTER TABLE ledger DROP CONSTRAINT IF EXISTS ledger_from_row_1",),
}
"""By whether the database is a file: what somebody who owns it does first to write a row before the first."""


def row_before_first(seq: int) -> str:
    return (
        "INSERT INTO ledger (chain, seq, id, at, kind, plugin, call, principal, facts, hash) SELECT "
        f"chain, {seq}, 'evt_{seq}', at, kind, 'aaa', 'call_x', 'aaa', facts, hash FROM ledger "
        "WHERE seq = 7"
    )


async def test_a_row_before_the_first_is_refused_by_the_database(database_address: str, tmp_path: Path) -> None:
    chain = await new_chain(database_address, tmp_path / "state")
    for statement in (row_before_first(0), row_before_first(-3), "UPDATE ledger SET seq = 0 WHERE seq = 30"):
        with pytest.raises(Conflict):
            chain.change(statement)
    assert chain.code() == 0


@pytest.mark.parametrize("seq", [0, -3])
async def test_a_row_before_the_first_is_named_by_every_verifier_and_shown_by_no_reader(
    database_address: str, tmp_path: Path, seq: int
) -> None:
    chain = await new_chain(database_address, tmp_path / "state")
    chain.change_as_owner(*UNCHECKED[chain.embedded], row_before_first(seq))

    for anchors in ((), (chain.checkpoints,)):
        finding = chain.verify(anchors=anchors)
        assert (finding.verdict, finding.seq, finding.id) == ("tampered", seq, f"evt_{seq}")
    if chain.embedded:
        assert chain.example_on_file() == 1
    broken: dict[str, PaddockError] = {}
    async with open_database(chain.address, role="command") as database:
        await verify_since_checkpoint(database, chain.state, broken)
    assert (broken["default"].error_code, broken["default"].details["seq"]) == ("ledger.broken", seq)

    with open_direct(chain.address) as database:
        assert database.read(lambda tx: list_entries(tx, newest_first=False))[0].seq == 1
        for entry_filter in (EntryFilter(plugin="aaa"), EntryFilter(principal="aaa"), EntryFilter(type="forged.*")):
            assert database.read(lambda tx, one=entry_filter: list_entries(tx, entry_filter=one)) == []
        assert database.read(lambda tx: find_entries(tx, f"evt_{seq}")) == []
        assert database.read(lambda tx: call_history(tx, "call_x")) == []
        assert "aaa" not in database.read(lambda tx: list_names(tx, "plugin", "default", 5))
        assert not any(kind.startswith("forged") for kind in database.read(list_types))
        assert database.read(lambda tx: list_ended_calls(tx, "default", "aaa", max_scanned=1)).since is None
    assert b"forged" not in chain.export().read_bytes()
