"""The disk of the simulation loses what a disk may lose, and nothing else."""

from __future__ import annotations

from random import Random

import pytest
from tests.simulation.disk import Disk, disks
from tests.simulation.store import open_direct_at

from paddock.core.errors import StoreUnavailable
from paddock.store.sqlite import SqliteDirect
from paddock.store.transaction import Transaction


def made(store: SqliteDirect) -> None:
    store.connection.execute("CREATE TABLE things (name TEXT)")


def add(tx: Transaction) -> None:
    tx.execute("INSERT INTO things (name) VALUES (?)", ("x" * 2_000,))


def count(store: SqliteDirect) -> int:
    return len(store.read(lambda tx: tx.all("SELECT name FROM things")))


def test_what_was_committed_survives_a_power_cut_and_what_was_not_synced_may_not() -> None:
    kept: dict[str, set[int]] = {"FULL": set(), "NORMAL": set()}
    for synchronous, counts in kept.items():
        for seed in range(20):
            with disks() as all_disks:
                disk = Disk(Random(seed), {"db": b""})
                store = open_direct_at(all_disks.path(disk, "db"), synchronous=synchronous)
                made(store)
                for _ in range(5):
                    store.write(add)
                disk.cut_power()
                store.close()
                after = open_direct_at(all_disks.path(Disk(Random(0), disk.remains or {}), "db"))
                if after.has_table("things"):
                    counts.add(count(after))
                after.close()
    assert kept["FULL"] == {5}
    assert min(kept["NORMAL"], default=0) < 5


def test_a_host_that_is_killed_loses_nothing_that_it_wrote() -> None:
    with disks() as all_disks:
        disk = Disk(Random(1), {"db": b""})
        store = open_direct_at(all_disks.path(disk, "db"), synchronous="OFF")
        made(store)
        store.write(add)
        disk.kill()
        store.write(add)  # and what it still writes nobody sees
        store.close()
        after = open_direct_at(all_disks.path(Disk(Random(0), disk.remains or {}), "db"))
        assert count(after) == 1
        after.close()


@pytest.mark.parametrize(("failing", "code"), [("full", "store.full"), ("failing", "store.unavailable")])
def test_a_full_or_failing_disk_refuses_a_unit_whole_and_takes_it_later(failing: str, code: str) -> None:
    with disks() as all_disks:
        disk = Disk(Random(1), {"db": b""})
        store = open_direct_at(all_disks.path(disk, "db"))
        made(store)
        setattr(disk, failing, 1)
        with pytest.raises(StoreUnavailable) as refused:
            store.write(add)
        setattr(disk, failing, 0)
        assert (refused.value.error_code, count(store)) == (code, 0)
        store.write(add)
        assert count(store) == 1
        store.close()
