"""A full disk under the checkpoints alone: calls go on and are recorded, and whoever looks is told what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import Office

from fixtures.commands import Paddock, Said
from fixtures.daemons import ask
from fixtures.small_disks import fill, small_disk
from paddock.core.clock import SystemClock, SystemRandom
from paddock.daemon.application import build_application
from paddock.host.host import Host
from paddock.ledger.write import lifespan
from paddock.web.daemon_address import socket_path
from paddock.web.server.unix_socket import serve_unix_socket

CLOCK, RANDOM = SystemClock(), SystemRandom()
SAYS = "a checkpoint of the ledger cannot be written: No space left on device"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifespan, "CHECKPOINT_INTERVAL_S", 0.1)
    monkeypatch.setattr(lifespan, "RETRY_INTERVAL_S", 0.1)


@asynccontextmanager
async def listened_to(office: Office) -> AsyncGenerator[Host, None]:
    """A host that commands and others find as they find a daemon."""
    async with (
        office.open() as host,
        serve_unix_socket(build_application(host, CLOCK, RANDOM).web, socket_path(host.directories)),
    ):
        yield host


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not claim():  # noqa: ASYNC110 - a number tells nobody
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("key", ["there", "missing"])
async def test_a_ledger_that_gets_no_checkpoints_says_so_everywhere_and_gets_them_once_there_is_room(
    tmp_path: Path, key: str
) -> None:
    office, paddock = Office(tmp_path), Paddock(tmp_path / "home", more={"NO_COLOR": "1"})

    async def command(*words: str, code: int = 0) -> Said:
        return await asyncio.to_thread(paddock, *words, code=code)

    async def get(path: str) -> Any:
        return (await asyncio.to_thread(ask, paddock.home / "run" / "paddock.sock", "GET", path)).body

    with small_disk(tmp_path / "home" / "state", "256k") as disk:
        async with listened_to(office) as host:
            if key == "there":
                await host.call("mail.look", {})
                await until((disk / "ledger" / "default.checkpoints.jsonl").exists)
            filler = fill(disk)
            while (
                "paddock_checkpointing 0" not in host.observability.metrics.render()
            ):  # the last page may have room for some lines
                assert await host.call("mail.look", {}) == {"done": "look"}
                await asyncio.sleep(0.05)

            assert await host.call("mail.note", {}) == {"done": "note"}
            assert await get("/readyz") == {"status": "ready"}
            (trouble,) = (await get("/status"))["troubles"]
            assert (trouble["about"], trouble["code"], trouble["message"]) == ("checkpoints", "store.full", SAYS)
            assert trouble["hint"] == f"free some space: df -h {disk}"
            verified = await command("ledger", "verify")
            assert verified.out.startswith("✓ default: sound")
            assert f"! {SAYS}; free some space" in verified.err
            as_json = (await command("ledger", "verify", "--json")).json
            assert (as_json["verdict"], as_json["unsigned_because"]["message"]) == ("sound", SAYS)
            assert as_json["chains"][0]["unsigned"] > 0
            checks = (await command("doctor", "--json")).json["checks"]
            (check,) = [one for one in checks if one["name"] == "daemon"]
            assert (check["status"], check["code"]) == ("warn", "store.full")
            assert SAYS in check["found"]

            filler.unlink()
            await until(lambda: "paddock_checkpointing 1" in host.observability.metrics.render())
            assert (await get("/status"))["troubles"] == []
            as_json = (await command("ledger", "verify", "--json")).json
            assert (as_json["unsigned_because"], as_json["chains"][0]["unsigned"]) == (None, 0)
