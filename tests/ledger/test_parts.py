"""A long chain is verified in parts, each in a process of its own, with the findings of one process."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.ledger.chains import Chain, called, new_chain

from paddock.ledger.chain import part_processes
from paddock.ledger.chain.part_processes import PartProcess
from paddock.ledger.chain.verifier import ChainFinding, VerifiedPart
from paddock.ledger.chain.verify import verify_ledger
from paddock.store.database import open_direct


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> list[VerifiedPart | None]:
    """What processes found, of chains that are split into three as soon as each part has five rows."""
    monkeypatch.setattr(part_processes, "_MIN_PART_ROWS", 5)
    monkeypatch.setattr(part_processes, "_count_processors", lambda: 3)
    found: list[VerifiedPart | None] = []
    result = PartProcess.result

    def noted(process: PartProcess) -> VerifiedPart | None:
        found.append(result(process))
        return found[-1]

    monkeypatch.setattr(PartProcess, "result", noted)
    return found


def verify_in_parts(address: str, state: Path) -> ChainFinding:
    reported: list[tuple[int, int]] = []
    with open_direct(address) as database:
        (finding,) = verify_ledger(
            database,
            state,
            tenant="default",
            report=lambda _, rows, total: reported.append((rows, total)),
            address=address,
        )
    assert all(rows <= total for rows, total in reported)
    return finding


async def test_a_chain_verified_in_parts_is_found_as_by_one_process(
    database_address: str, tmp_path: Path, parts: list[VerifiedPart | None]
) -> None:
    chain = await new_chain(database_address, tmp_path / "state")
    assert verify_in_parts(database_address, chain.state) == chain.verify()
    assert [part and part.seq for part in parts] == [20, 30], "the first part has the rows up to 10"
    chain.erase("bob")
    assert verify_in_parts(database_address, chain.state) == chain.verify()
    assert (chain.verify().verdict, chain.verify().erased > 5) == ("sound", True)


CHANGES = {
    "a row of the first part": "UPDATE ledger SET plugin = 'mail' WHERE seq = 7",
    "the hash between two parts": "UPDATE ledger SET hash = (SELECT hash FROM ledger WHERE seq = 4) WHERE seq = 10",
    "a row of the last part": "UPDATE ledger SET principal = 'mallory' WHERE seq = 25",
    "bytes that are no text": "UPDATE ledger SET facts = CAST(x'7b22ff227d' AS TEXT) WHERE seq = 16",
    "an erasure by hand": "UPDATE ledger SET personal = NULL, salt = NULL, principal = NULL WHERE seq = 7",
    "the last rows": "DELETE FROM ledger WHERE seq > 25",
    "the times": "UPDATE ledger_times SET last_at = first_at",
}


async def test_what_was_changed_in_any_part_is_named_as_by_one_process(sqlite_address: str, tmp_path: Path) -> None:
    chain = await new_chain(sqlite_address, tmp_path / "state")
    for name, change in CHANGES.items():
        file = tmp_path / f"{name}.db"
        shutil.copy(chain.file, file)
        changed = Chain(f"sqlite://{file}", chain.state)
        changed.change(change)
        expected = changed.verify()
        assert expected.verdict in ("tampered", "truncated"), name
        found = verify_in_parts(changed.address, chain.state)
        assert found == replace(expected, rows=found.rows, erased=found.erased), name


async def test_a_checkpoint_over_all_rows_leaves_one_part_and_one_over_other_rows_is_named(
    sqlite_address: str, tmp_path: Path, parts: list[VerifiedPart | None]
) -> None:
    chain = await new_chain(sqlite_address, tmp_path / "state")
    lines = chain.checkpoints.read_bytes().splitlines(keepends=True)
    chain.checkpoints.write_bytes(lines[0] + lines[0])
    assert verify_in_parts(sqlite_address, chain.state) == chain.verify()
    assert chain.verify().verdict == "tampered"
    chain.checkpoints.unlink()
    chain.change("DELETE FROM ledger_checkpoints")
    await chain.checkpoint()
    parts.clear()
    assert verify_in_parts(sqlite_address, chain.state).verdict == "sound"
    assert not parts


async def test_a_process_that_cannot_start_or_open_the_database_leaves_its_rows_to_the_first(
    sqlite_address: str, tmp_path: Path, parts: list[VerifiedPart | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = await new_chain(sqlite_address, tmp_path / "state")
    with open_direct(sqlite_address) as database:
        (finding,) = verify_ledger(database, chain.state, tenant="default", address=tmp_path)
    assert (finding, parts) == (chain.verify(), [None])
    parts.clear()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    assert (verify_in_parts(sqlite_address, chain.state), parts) == (chain.verify(), [])


async def test_rows_added_while_a_cut_chain_is_verified_do_not_take_the_place_of_signed_ones(
    sqlite_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Chain(sqlite_address, tmp_path / "state")
    for first in (1, 21):
        chain.add(*(called(number) for number in range(first, first + 20)))
        await chain.checkpoint()
    chain.change(
        "DELETE FROM ledger WHERE seq > 30",
        "UPDATE ledger_heads SET seq = 30, hash = (SELECT hash FROM ledger WHERE seq = 30)",
    )
    result = PartProcess.result

    def add_meanwhile(process: PartProcess) -> VerifiedPart | None:
        found = result(process)
        chain.add(*(called(number) for number in range(41, 61)))
        return found

    monkeypatch.setattr(PartProcess, "result", add_meanwhile)
    assert verify_in_parts(sqlite_address, chain.state).verdict == "truncated"
