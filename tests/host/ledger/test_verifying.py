"""Verifying a chain while the host runs."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.ledger.chains import RANDOM, called, drafts

from fixtures.ledger_rows import of_tenant
from paddock.core.clock import SystemClock
from paddock.core.ids import Tenant
from paddock.core.tasks import scoped_tasks
from paddock.host.ledger.verification import Verification, VerificationService
from paddock.ledger.write.append import append_entries
from paddock.ledger.write.writer import LedgerWriter
from paddock.store.database import open_direct

ROWS = 4_500  # more than two pages
DEFAULT, ACME = Tenant("default"), Tenant("acme")


class OnDisk(LedgerWriter):
    """Everything is written already."""

    def __init__(self) -> None: ...

    async def flush(self) -> None: ...


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("verifying") / "db"
    with open_direct(made) as database:
        for tenant, rows in (("default", ROWS), ("acme", 3)):
            entries = drafts([called(number) for number in range(rows)], tenant)
            database.write(lambda tx, entries=entries: append_entries(tx, entries, RANDOM))
    return made


async def found(verifying: VerificationService, tenant: Tenant) -> list[Verification]:
    async with asyncio.timeout(30):
        return [one async for one in verifying.watch(tenant)]


async def test_how_far_it_is_is_told_until_the_verdict_and_who_wanted_it(file: Path) -> None:
    async with scoped_tasks() as tasks:
        verifying = VerificationService(partial(open_direct, file), file.parent, OnDisk(), tasks, SystemClock())
        assert verifying.latest(DEFAULT) is None
        begun = verifying.start(DEFAULT, "user:ann")
        assert verifying.start(DEFAULT, "user:bob") is begun  # it is this one already

        told = await found(verifying, DEFAULT)

        assert not told[0].finished
        assert (told[-1].by, told[-1].rows) == ("user:ann", ROWS)
        assert told[-1].finding is not None
        assert (told[-1].finding.verdict, told[-1].finding.rows) == ("sound", ROWS)
        assert verifying.latest(ACME) is None, "each tenant knows of its own alone"


async def test_a_row_that_somebody_changed_is_named_and_only_in_its_own_chain(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "db"
    with sqlite3.connect(file) as whole, sqlite3.connect(copy) as forged:
        whole.backup(forged)
        forged.execute(f"UPDATE ledger SET facts = '{{}}' WHERE {of_tenant('acme')} AND seq = 2")
    forged.close()
    async with scoped_tasks() as tasks:
        verifying = VerificationService(partial(open_direct, copy), tmp_path, OnDisk(), tasks, SystemClock())
        for tenant in (ACME, DEFAULT):
            verifying.start(tenant, "user:ann")
        acme, default = [(await found(verifying, tenant))[-1].finding for tenant in (ACME, DEFAULT)]

    assert acme is not None
    assert default is not None
    assert (acme.verdict, acme.seq, default.verdict) == ("tampered", 2, "sound")


async def test_chains_are_verified_one_after_the_other_and_the_end_of_the_host_ends_it(file: Path) -> None:
    opened, let_go = Event(), Event()
    at_once: list[int] = []

    @contextmanager
    def held() -> Any:
        at_once.append(1)
        opened.set()
        assert let_go.wait(30)
        with open_direct(file) as database:
            yield database

    async with scoped_tasks() as tasks:
        verifying = VerificationService(held, file.parent, OnDisk(), tasks, SystemClock())
        verifying.start(DEFAULT, "user:ann")
        verifying.start(ACME, "user:ann")
        await asyncio.to_thread(opened.wait, 30)
        assert len(at_once) == 1
        tasks.cancel_scope.cancel()
        let_go.set()  # the thread sees after its first page that nobody waits any more

    default, acme = verifying.latest(DEFAULT), verifying.latest(ACME)
    assert default is not None
    assert acme is not None
    assert default.finished
    assert acme.finished
    assert default.rows < ROWS
    assert len(at_once) == 1
