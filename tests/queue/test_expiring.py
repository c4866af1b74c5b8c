"""A request that nobody answers ends when its time is over: the daemon finds that in its queue."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, held, outcome

from paddock.approvals import request
from paddock.approvals.model import ApprovalRequestKind
from paddock.config.directories import find_directories
from paddock.core.clock import SystemClock
from paddock.gate.calls import resume
from paddock.store.database import open_direct

WAITING = "SELECT kind, key, node FROM queue WHERE kind = 'approval.expire'"


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    """Where nobody looks through all requests meanwhile."""
    monkeypatch.setattr(resume, "EXPIRY_CHECK_INTERVAL_S", 3600.0)
    return Office(tmp_path)


def rows(office: Office, sql: str) -> list[dict[str, Any]]:
    where = find_directories({"PADDOCK_HOME": str(office.home)}, office.home).database_file
    with open_direct(where) as database:
        return database.read(lambda tx: tx.all(sql))


async def test_a_request_that_nobody_answers_ends_on_time_and_so_does_its_call(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "REQUEST_TTL", dict.fromkeys(ApprovalRequestKind, timedelta(seconds=0.3)))
    async with office.open() as host:
        waits = await held(host)

        ended = await outcome(host, waits["call_id"])

        assert ended["error"]["code"] == "approval.expired"
        assert (await host.approvals.find("default", waits["approval"]))["state"] == "expired"
    assert rows(office, WAITING) == []


async def test_a_request_that_ran_out_while_no_daemon_was_there_ends_when_one_starts(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office.open() as host:
        waits = await held(host)
    (waiting,) = rows(office, WAITING)
    assert waiting == {"kind": "approval.expire", "key": waits["approval"], "node": None}

    present = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: present(self) + timedelta(days=8))
    async with office.open() as host, asyncio.timeout(30):
        while rows(office, WAITING):  # noqa: ASYNC110 - nothing says that the queue is empty
            await asyncio.sleep(0.02)

        assert (await host.approvals.find("default", waits["approval"]))["state"] == "expired"


async def test_an_answer_takes_a_request_out_of_the_queue_and_no_lease_outlives_its_daemon(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        await host.approvals.approve(waits["approval"], ANN)
        await outcome(host, waits["call_id"])

    assert rows(office, WAITING) == []
    assert rows(office, "SELECT node FROM node_leases") == []
