"""Chains under way: two processes at once, a process that dies, a disk that is full, and tenants beside each other."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ledger.chains import Chain, called

from fixtures.ledger_entries import list_recent
from fixtures.ledger_rows import of_tenant
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.ids import Tenant
from paddock.ledger.chain.checkpoint import checkpoint_file
from paddock.ledger.chain.checkpointer import Checkpointer
from paddock.ledger.chain.signing_key import private_key_file
from paddock.ledger.read.entries import list_tenants
from paddock.ledger.write import lifespan
from paddock.ledger.write.lifespan import open_ledger
from paddock.store.database import open_database, open_direct

ROWS = 120

STREAM = """
import asyncio, sys
from pathlib import Path
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.events.plugin_runtime import PluginMethodCalled
from paddock.ledger.write.append import TransactionLedger
from paddock.ledger.write.lifespan import open_ledger
from paddock.store.database import open_database

CLOCK, RANDOM = SystemClock(), SystemRandom()

async def caller(database, name, count):
    for number in range(count):
        event = PluginMethodCalled("notes", "notes.add", request := f"req_{name}_{number}", name, None)
        await database.write(lambda tx: TransactionLedger(tx, CLOCK, RANDOM, "default").record(event))
        print(request, flush=True)

async def main(address, state, name, count):
    async with (
        open_database(address, role="command") as database,
        open_ledger(database, CLOCK, RANDOM, state=Path(state)),
    ):
        await asyncio.gather(*(caller(database, f"{name}{place}", count) for place in range(4)))

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


def stream(address: str, state: Path, name: str, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", STREAM, address, str(state), name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


async def test_two_processes_that_write_at_once_make_one_chain(database_address: str, tmp_path: Path) -> None:
    chain = Chain(database_address, tmp_path / "state")
    with open_direct(database_address):
        pass  # made before they begin
    with (
        stream(database_address, chain.state, "a", ROWS // 4) as one,
        stream(database_address, chain.state, "b", ROWS // 4) as two,
    ):
        said = one.communicate(timeout=60)[0].split() + two.communicate(timeout=60)[0].split()
    assert (one.returncode, two.returncode) == (0, 0)
    assert len(said) == 2 * ROWS
    with open_direct(database_address) as database:
        assert {entry.request for entry in database.read(lambda tx: list_recent(tx, limit=1000))} == set(said)
    finding = chain.verify()
    assert (finding.verdict, finding.rows) == ("sound", 2 * ROWS)
    assert finding.signed_to > 0
    assert chain.example() == 0


async def test_what_was_answered_is_in_a_sound_chain_after_kill_9(database_address: str, tmp_path: Path) -> None:
    chain = Chain(database_address, tmp_path / "state")
    with stream(database_address, chain.state, "a", 1_000_000) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(150)]
        process.kill()
        said += [line.strip() for line in process.stdout if line.endswith("\n")]
    finding = chain.verify()
    assert finding.verdict == "sound"
    with open_direct(database_address) as database:
        rows = database.read(lambda tx: tx.all("SELECT request FROM ledger"))
    assert set(said) <= {row["request"] for row in rows}
    chain.add(called(1))
    await chain.checkpoint()
    assert chain.verify().unsigned == 0


FULL = """
import asyncio, resource, sys
from pathlib import Path
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import StoreUnavailable
from paddock.core.events.plugin_runtime import PluginMethodCalled
from paddock.ledger.write import writer as module
from paddock.ledger.read.entries import list_entries
from paddock.ledger.write.lifespan import open_ledger
from paddock.ledger.chain.verify import verify_ledger
from paddock.store.database import open_database, open_direct

module.RETRY_DELAY_S = 0.05

def called(number):
    return PluginMethodCalled("notes" * 2000, "notes.add", f"req_{number}", "bob", None)

async def written(writer, number):
    writer.enqueue(called(number), "default")
    await writer.flush()

def look(address, state):
    with open_direct(address) as database:
        (finding,) = verify_ledger(database, state, tenant="default")
        return [finding.verdict, finding.rows, len(database.read(lambda tx: list_entries(tx, limit=100)))]

async def main(address, state):
    async with open_database(address) as database:
        async with open_ledger(database, SystemClock(), SystemRandom(), state=state) as writer:
            for number in range(10):
                await written(writer, number)
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
            kept = 10
            for number in range(10, 60):  # until the log takes no more
                try:
                    await written(writer, number)
                except StoreUnavailable as error:
                    print(error.error_code, writer.failing is error)
                    break
                kept += 1
            print(look(address, state) == ["sound", kept, kept])
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            for _ in range(200):
                if writer.failing is None:
                    break
                await asyncio.sleep(0.05)
            await written(writer, "last")  # and with it the one that there was no room for
            print(writer.failing, look(address, state) == ["sound", kept + 2, kept + 2])
        print(look(address, state)[0])

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


def test_on_a_full_disk_nothing_is_taken_and_all_can_be_read_and_it_recovers(
    sqlite_address: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", FULL, sqlite_address, str(tmp_path / "state")]
    said = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert said.stdout.splitlines() == ["store.full True", "True", "None True", "sound"], said.stderr


@pytest.mark.req("B-06", "a chain per tenant")
@pytest.mark.req("B-22", "ledger")
async def test_tenants_have_chains_of_their_own(database_address: str, tmp_path: Path) -> None:
    names = ["default", "../b", "c" * 300, "ü / 2"]
    state = tmp_path / "state"
    async with (
        open_database(database_address) as database,
        open_ledger(database, SystemClock(), SystemRandom(), state=state) as writer,
    ):
        for number in range(40):
            writer.publisher(Tenant(names[number % 4])).publish(called(number))
    chain = Chain(database_address, state)
    assert {(chain.verify(name).verdict, chain.verify(name).rows) for name in names} == {("sound", 10)}
    assert len(list((state / "ledger").iterdir())) == 4
    with open_direct(database_address) as direct:
        assert direct.read(list_tenants) == sorted(names)
        assert {entry.tenant for entry in direct.read(lambda tx: list_recent(tx, tenant="../b"))} == {"../b"}
    chain.change(f"UPDATE ledger SET at = 'x' WHERE {of_tenant('../b')} AND seq = 3")
    assert [chain.verify(name).verdict for name in names] == ["sound", "tampered", "sound", "sound"]


@pytest.mark.req("B-06", "signed checkpoints outside the database")
async def test_a_checkpoint_comes_with_the_thousandth_row_with_time_and_at_the_end(
    sqlite_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifespan, "CHECKPOINT_INTERVAL_S", 0.2)
    file = checkpoint_file(tmp_path, "default")

    async def until(count: int) -> None:
        async with asyncio.timeout(20):
            while not file.exists() or len(file.read_bytes().splitlines()) < count:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.01)

    async with open_database(sqlite_address) as database:
        async with open_ledger(database, SystemClock(), SystemRandom(), state=tmp_path) as writer:
            writer.enqueue(called(1), "default")
            await until(1)
            monkeypatch.setattr(lifespan, "CHECKPOINT_INTERVAL_S", 600.0)
            await asyncio.sleep(0.25)  # the short time that was begun before ends
            for number in range(1000):
                writer.enqueue(called(number), "default")
            await until(2)
            writer.enqueue(called(2), "default")
        points = [json.loads(line) for line in file.read_bytes().splitlines()]
        assert [(point["from_seq"], point["to_seq"]) for point in points] == [(1, 1), (2, 1001), (1002, 1002)]
    assert stat.S_IMODE(private_key_file(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Chain(sqlite_address, tmp_path).verify().unsigned == 0


async def test_a_quiet_chain_gets_its_checkpoint_in_time_beside_a_busy_one(
    sqlite_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifespan, "CHECKPOINT_INTERVAL_S", 0.5)
    monkeypatch.setattr(lifespan, "CHECKPOINT_ROWS", 20)
    quiet, busy = checkpoint_file(tmp_path, "quiet"), checkpoint_file(tmp_path, "busy")
    async with (
        open_database(sqlite_address) as database,
        open_ledger(database, SystemClock(), SystemRandom(), state=tmp_path) as writer,
        asyncio.timeout(20),
    ):
        writer.enqueue(called(0), "quiet")
        while not quiet.exists():  # never a moment without twenty rows more in less than half a second
            for number in range(5):
                writer.enqueue(called(number), "busy")
            await writer.flush()
        assert writer.unsigned is None
    assert len(busy.read_bytes().splitlines()) > 2


async def test_a_chain_gets_a_checkpoint_when_it_has_grown_by_a_thousand_rows_and_not_when_all_have_again(
    sqlite_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifespan, "CHECKPOINT_ROWS", 100)
    file = checkpoint_file(tmp_path, "a")
    async with (
        open_database(sqlite_address) as database,
        open_ledger(database, SystemClock(), SystemRandom(), state=tmp_path) as writer,
    ):
        for name in (*["a"] * 99, "b"):
            writer.enqueue(called(1), name)
        await writer.flush()
        for number in range(20):
            writer.enqueue(called(number), "a")
            await writer.flush()
        async with asyncio.timeout(10):
            while not file.exists() or not file.stat().st_size:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.01)
        assert not checkpoint_file(tmp_path, "b").exists()


async def test_a_chain_that_is_broken_keeps_no_other_from_its_checkpoints(
    database_address: str, tmp_path: Path
) -> None:
    chain = Chain(database_address, tmp_path)
    names = ("acme", "beta", "corp", "default")

    def add() -> None:
        for name in names:
            chain.add(called(1), called(2), tenant=name)

    add()
    await chain.checkpoint()
    for name in ("acme", "corp"):
        first = f"(SELECT hash FROM ledger WHERE {of_tenant()} AND seq = 1)"
        chain.change(f"UPDATE ledger SET hash = {first} WHERE {of_tenant(name)} AND seq = 2")
    async with open_database(database_address, role="command") as database:
        checkpointer = Checkpointer(database, SystemClock(), tmp_path)
        for _ in range(3):
            add()
            assert await checkpointer.checkpoint_due_chains() == 2
            assert checkpointer.failing is not None
            assert checkpointer.failing.error_code == "ledger.broken"
            assert "ledger of acme is not" in checkpointer.failing.message
            assert "ledger of corp is not" in checkpointer.failing.message
            assert checkpointer.ahead == 0, "what cannot be signed hurries nobody"
    counts = [len(checkpoint_file(tmp_path, name).read_bytes().splitlines()) for name in names]
    assert counts == [1, 4, 1, 4]
    assert chain.verify().unsigned == 0


async def test_a_host_for_one_call_signs_a_quiet_chain_though_a_busy_one_was_signed_just_now(
    sqlite_address: str, tmp_path: Path
) -> None:
    for name in ("busy", "quiet"):
        async with (
            open_database(sqlite_address, role="command") as database,
            open_ledger(database, SystemClock(), SystemRandom(), state=tmp_path, long_running=False) as writer,
        ):
            writer.enqueue(called(1), name)
            writer.enqueue(called(2), "busy")
    assert len(checkpoint_file(tmp_path, "busy").read_bytes().splitlines()) == 1
    assert checkpoint_file(tmp_path, "quiet").exists()


async def test_a_host_for_one_call_signs_at_most_once_a_minute(sqlite_address: str, tmp_path: Path) -> None:
    file = checkpoint_file(tmp_path, "default")
    counts: list[int] = []
    for number in range(3):
        if number == 2:
            os.utime(file, (0, 0))
        async with (
            open_database(sqlite_address, role="command") as database,
            open_ledger(database, SystemClock(), SystemRandom(), state=tmp_path, long_running=False) as writer,
        ):
            writer.enqueue(called(number), "default")
        counts.append(len(file.read_bytes().splitlines()))
    assert counts == [1, 1, 2]
    assert Chain(sqlite_address, tmp_path).verify().unsigned == 0
