"""`paddock doctor` on a full disk: it says so at once, although every check wants the store."""

from __future__ import annotations

import time
from pathlib import Path

from fixtures.commands import Paddock
from fixtures.small_disks import fill, small_disk


def test_a_full_disk_without_a_daemon_is_reported_at_once(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        paddock = Paddock(disk / "home")
        paddock.quickly("user", "add", "ann")
        fill(disk)

        began = time.monotonic()
        checks = {one["name"]: one for one in paddock.quickly("doctor", "--json", code=1).json["checks"]}

        assert time.monotonic() - began < 8, "one check waited for another"
        assert (checks["disk"]["status"], checks["SQLite"]["status"]) == ("fail", "fail")
        assert "df -h" in checks["SQLite"]["fix"]
        assert "no room left" in checks["ledger"]["found"]
        said = paddock.quickly("user", "add", "bob", "--json", code=1)
        assert said.error["code"] == "store.full"
