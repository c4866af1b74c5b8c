"""A request that nobody answers ends when its time is over, by one timer, and nothing else waits for that."""

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
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.wiring.background_jobs import EFFECT_RETENTION_JOB
from paddock.store.database import open_direct

JOBS = f"SELECT kind, key FROM queue WHERE kind <> '{EFFECT_RETENTION_JOB}'"


@pytest.fixture
def office(tmp_path: Path) -> Office:
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
        assert rows(office, JOBS) == [], "what waits is no job"

        followed = await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)
        async with asyncio.timeout(30):
            await followed.wait_ended()

        assert followed.error is not None
        assert followed.error.error_code == "approval.expired"
        assert (await host.approvals.find("default", waits["approval"]))["state"] == "expired"


async def test_a_request_that_ran_out_while_no_daemon_was_there_ends_when_one_starts(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office.open() as host:
        waits = await held(host)

    present = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: present(self) + timedelta(days=8))
    async with office.open() as host:
        assert (await host.approvals.find("default", waits["approval"]))["state"] == "expired"
        assert (await outcome(host, waits["call_id"]))["error"]["code"] == "approval.expired"


async def test_a_clock_that_is_set_forward_is_noticed(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async with office.open() as host:
        waits = await held(host)
        followed = await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)
        present = SystemClock.now
        monkeypatch.setattr(SystemClock, "now", lambda self: present(self) + timedelta(days=8))
        async with asyncio.timeout(30):
            await followed.wait_ended()

        assert (await host.approvals.find("default", waits["approval"]))["state"] == "expired"


async def test_an_answer_ends_the_wait_and_no_lease_outlives_its_daemon(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        await host.approvals.approve(waits["approval"], ANN)
        await outcome(host, waits["call_id"])

    assert rows(office, JOBS) == []
    assert rows(office, "SELECT node FROM node_leases") == []
