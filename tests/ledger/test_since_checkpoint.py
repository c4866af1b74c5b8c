"""A daemon that starts verifies what came since the last checkpoint; calls of whose chain is broken are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace
from tests.gate.test_governed_calls import Office
from tests.ledger.chains import Chain, called, new_chain

from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import HostError, PaddockError
from paddock.ledger.chain import startup_check
from paddock.ledger.chain.checkpoint import checkpoint_file, last_checkpoint_in, sign_checkpoint
from paddock.ledger.chain.startup_check import verify_since_checkpoint
from paddock.ledger.write import lifespan
from paddock.ledger.write.lifespan import open_ledger
from paddock.store.database import open_database, open_direct

CUT = "UPDATE ledger_heads SET seq = {0}, hash = (SELECT hash FROM ledger WHERE seq = {0})"


@pytest.fixture
async def chain(database_address: str, tmp_path: Path) -> Chain:
    return await new_chain(database_address, tmp_path / "state")


async def broken(chain: Chain) -> dict[str, PaddockError]:
    found: dict[str, PaddockError] = {}
    async with open_database(chain.address, role="command") as database:
        await verify_since_checkpoint(database, chain.state, found)
    return found


async def test_a_chain_that_goes_on_from_its_last_checkpoint_is_not_broken(chain: Chain) -> None:
    chain.add(called(31), tenant="acme")  # which has no checkpoint yet
    assert await broken(chain) == {}


@pytest.mark.parametrize(
    ("statements", "verdict", "seq"),
    [
        (["UPDATE ledger SET plugin = 'mail' WHERE seq = 25"], "tampered", 25),
        (["DELETE FROM ledger WHERE seq = 25"], "tampered", 25),
        (["DELETE FROM ledger WHERE seq > 25"], "truncated", 26),
        (["UPDATE ledger_heads SET hash = (SELECT hash FROM ledger WHERE seq = 29)"], "tampered", 30),
        (["UPDATE ledger SET personal = NULL, salt = NULL, principal = NULL WHERE seq = 25"], "tampered", 25),
        (["UPDATE ledger SET hash = (SELECT hash FROM ledger WHERE seq = 19) WHERE seq = 20"], "tampered", 20),
        ([CUT.format(15), "DELETE FROM ledger WHERE seq > 15"], "truncated", None),
        (["DELETE FROM ledger", "DELETE FROM ledger_heads"], "truncated", None),
    ],
)
async def test_whatever_was_changed_since_the_last_checkpoint_is_found(
    chain: Chain, statements: list[str], verdict: str, seq: int | None
) -> None:
    chain.change(*statements)

    found = (await broken(chain))["default"]

    assert found.error_code == "ledger.broken"
    assert (found.details["verdict"], found.details["seq"]) == (verdict, seq)


async def test_a_last_checkpoint_with_a_false_signature_is_found(chain: Chain) -> None:
    last = last_checkpoint_in(chain.checkpoints)
    assert last is not None
    chain.checkpoints.write_bytes(chain.checkpoints.read_bytes().replace(last.signature.encode(), b"AAAA"))

    assert "false signature" in (await broken(chain))["default"].message


def _of_an_unknown_key(chain: Chain) -> None:
    last = last_checkpoint_in(chain.checkpoints)
    assert last is not None
    line = sign_checkpoint(Ed25519PrivateKey.generate(), replace(last, key_id="0" * 16)).line()
    chain.checkpoints.write_bytes(chain.checkpoints.read_bytes() + line + b"\n")


def _that_is_none(chain: Chain) -> None:
    chain.checkpoints.write_bytes(chain.checkpoints.read_bytes() + b"{}\n")


def _whose_key_went(chain: Chain) -> None:
    chain.key.rename(chain.key.with_name("elsewhere.pub"))


def _whose_key_is_damaged(chain: Chain) -> None:
    chain.key.write_text("hello")


async def test_a_file_that_cannot_be_looked_at_spares_no_other_chain_the_look(chain: Chain) -> None:
    checkpoint_file(chain.state, "acme").symlink_to(chain.state / "nowhere")
    chain.change("UPDATE ledger SET plugin = 'mail' WHERE seq = 25")

    assert (await broken(chain))["default"].details["seq"] == 25


async def test_where_verifying_fails_nothing_is_signed(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object) -> None:
        raise RuntimeError("a row that nobody foresaw")

    before = last_checkpoint_in(chain.checkpoints)
    monkeypatch.setattr(lifespan, "verify_since_checkpoint", failing)
    async with (
        open_database(chain.address, role="command") as database,
        open_ledger(database, SystemClock(), SystemRandom(), state=chain.state),
    ):
        pass
    assert last_checkpoint_in(chain.checkpoints) == before

    monkeypatch.undo()
    async with (
        open_database(chain.address, role="command") as database,
        open_ledger(database, SystemClock(), SystemRandom(), state=chain.state),
    ):
        pass
    assert last_checkpoint_in(chain.checkpoints) != before


@pytest.mark.parametrize("last", [_of_an_unknown_key, _that_is_none, _whose_key_went, _whose_key_is_damaged])
async def test_a_last_checkpoint_that_nobody_can_verify_spares_the_chain_no_look(
    chain: Chain, last: Callable[[Chain], None]
) -> None:
    last(chain)
    assert await broken(chain) == {}

    chain.change("UPDATE ledger SET plugin = 'mail' WHERE seq = 25")

    assert (await broken(chain))["default"].details["seq"] == 25


async def test_where_the_keys_of_all_checkpoints_are_gone_the_whole_chain_is_looked_at(chain: Chain) -> None:
    _whose_key_went(chain)
    chain.change("UPDATE ledger SET plugin = 'mail' WHERE seq = 7")

    assert (await broken(chain))["default"].details["seq"] == 7


async def test_a_chain_that_ends_before_a_checkpoint_of_an_unknown_key_is_truncated(chain: Chain) -> None:
    _whose_key_went(chain)
    chain.change(CUT.format(15), "DELETE FROM ledger WHERE seq > 15")

    assert (await broken(chain))["default"].details["verdict"] == "truncated"


async def test_what_was_signed_before_is_left_to_verify_for_it_would_take_too_long(chain: Chain) -> None:
    chain.change("UPDATE ledger SET plugin = 'mail' WHERE seq = 7")

    assert await broken(chain) == {}
    assert chain.verify().seq == 7


async def test_calls_of_whose_chain_is_broken_are_refused_and_it_gets_no_checkpoint_until_it_is_whole(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    file = office.home / "data" / "paddock.db"
    async with office.open() as host:
        await host.call("mail.note", {})
    checkpoint_file(office.home / "state", "default").unlink()
    change = "UPDATE ledger SET plugin = {} WHERE kind IN (SELECT kind FROM ledger_kinds WHERE type = 'call.ended')"
    with open_direct(file) as database:
        database.write(lambda tx: tx.execute(change.format("'other'")))

    for _ in range(2):  # stopping it does not make it good
        async with office.open() as host:
            with pytest.raises(HostError) as refused:
                await host.call("mail.look", {})
            assert refused.value.error_code == "ledger.broken"
            condition = host.observability.health.to_json()
            assert (condition["takes_calls"], condition["troubles"][0]["code"]) == (False, "ledger.broken")
            assert "mail.look" in host.callables()
        assert not checkpoint_file(office.home / "state", "default").exists()

    with open_direct(file) as database:
        database.write(lambda tx: tx.execute(change.format("'mail'")))
    async with office.open() as host:
        await host.call("mail.look", {})
    assert office.done == ["note", "look"]


async def test_a_chain_that_takes_long_is_looked_at_beside_the_calls_and_signed_only_afterwards(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifespan, "VERIFY_TIMEOUT_S", 0)
    monkeypatch.setattr(lifespan, "CHECKPOINT_INTERVAL_S", 0.01)
    monkeypatch.setattr(startup_check, "SEALED_PAGE_ROWS", 1)
    chain.change("UPDATE ledger SET plugin = 'mail' WHERE seq = 30")
    signed = chain.checkpoints.read_bytes()

    async with (
        asyncio.timeout(30),
        open_database(chain.address) as database,
        open_ledger(database, SystemClock(), SystemRandom(), state=chain.state) as writer,
    ):
        assert writer.broken == {}
        while writer.unsigned is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)

    assert writer.broken["default"].details["seq"] == 30
    assert writer.unsigned.error_code == "ledger.broken"
    assert chain.checkpoints.read_bytes() == signed
