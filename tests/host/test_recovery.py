"""A daemon puts in order what the one before it left: in this order, and however often it is killed over it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, doomed, eventually
from fixtures.ledger_rows import all_rows
from fixtures.packages import native, write_file
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.ids import CallId, Tenant
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import RECOVER_JOB, EffectKey
from paddock.host.wiring.background_jobs import EFFECT_RETENTION_JOB
from paddock.ledger.chain.checkpoint import checkpoint_file
from paddock.ledger.read.entries import list_tenants
from paddock.queue import leases
from paddock.queue.node import load_or_create_node_id
from paddock.store.database import Transaction, open_direct
from paddock.store.lock import LOCK_NAME

EFFECTS = 600
WAITING = 8
LONGEST = 1.5  # seconds from the lock until a daemon is certainly ready
PAST = "2026-01-01T00:00:00+00:00"
MAIL = """
import os
from paddock_sdk import Plugin
plugin = Plugin("mail", "1.0.0")
@plugin.tool
def send(params, context):
    file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (params["to"] + "\\n").encode())
    os.close(file)
    return {"sent": True}
plugin.run()
"""


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    file = tmp_path / "outside" / "sent"
    file.parent.mkdir()
    return file


@pytest.fixture
def paddock(tmp_path: Path, sent: Path) -> Paddock:
    """A home with a plugin that sends mail, which a person is asked about."""
    paddock = Paddock(tmp_path / "home")
    tool = {"name": "send", "description": "Send", "effects": ["external_send"], "input_schema": {"type": "object"}}
    folder = native(
        tmp_path / "mail",
        "mail",
        start="lazy",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[f"write:fs:{sent.parent}"],
        tools=[tool],
    )
    write_file(folder / "main.py", MAIL.replace("FILE", repr(str(sent))))
    paddock.quickly("plugin", "install", folder, "--yes", "--grant", f"write:fs:{sent.parent}")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    return paddock


def asked(paddock: Paddock, to: str) -> str:
    said = paddock.quickly("call", "mail.send", "--params", json.dumps({"to": to}), "--json", code=4)
    return said.error["details"]["approval"]


def change(paddock: Paddock, statement: str, *values: Any) -> None:
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        database.write(lambda tx: tx.execute(statement, values))


def state(paddock: Paddock) -> dict[str, Any]:
    """All that recovery is about, but for which run of the host did it when."""

    def unit(tx: Transaction) -> dict[str, Any]:
        types = ("effect.in_doubt", "effect.resolved", "approval.ended")
        return {
            "effects": tx.all("SELECT key, call, state, fence, error FROM effects WHERE plugin = 'gone' ORDER BY key"),
            "approvals": tx.all("SELECT id, state, ended_why FROM approvals ORDER BY id"),
            "queue": tx.all("SELECT kind, key FROM queue WHERE kind <> ? ORDER BY kind, key", (EFFECT_RETENTION_JOB,)),
            "told": Counter(
                (row.type, row.call) for tenant in list_tenants(tx) for row in all_rows(tx, tenant) if row.type in types
            ),
            "leases": leases.list_runs(tx),
        }

    with open_direct(paddock.home / "data" / "paddock.db") as database:
        return database.read(unit)


def left_by_a_killed_daemon(paddock: Paddock) -> None:
    """Effects under way, those that a plugin could be asked about too, and requests that nobody answered in time."""
    home = paddock.home
    name, now = load_or_create_node_id(home / "state", SystemClock(), SystemRandom()), datetime.now(UTC).isoformat()

    def unit(tx: Transaction) -> None:
        here = leases.open_lease(tx, name, daemon=True)
        for number in range(EFFECTS):
            effect = records.claim(
                tx,
                EffectKey(Tenant(f"tenant-{number % 5}"), "gone", "act", f"key-{number:04}"),
                call=CallId(f"call_{number:026}"),
                payload_hash="sha256:0",
                holder=here,
                recovery="none" if number % 2 else "probe",
                now=now,
                principal=None,
            )
            assert effect is not None
            records.mark_started(tx, effect, holder=here, now=now, payload={}, context={})

    for number in range(WAITING):
        asked(paddock, f"late-{number}")
    change(paddock, "UPDATE approvals SET expires_at = ?", PAST)
    for number in range(WAITING):
        asked(paddock, f"in-time-{number}")
    with open_direct(home / "data" / "paddock.db") as database:
        database.write(unit)


def kill_while_it_recovers(paddock: Paddock, after: float) -> None:
    """Kill a daemon so long after it has taken the lock, or when it is ready."""
    note = paddock.home / "data" / LOCK_NAME
    with paddock.start("serve", "--json") as process:
        deadline = time.monotonic() + PATIENCE
        while f'"pid": {process.pid},' not in note.read_text():
            assert time.monotonic() < deadline and process.poll() is None, "it does not start"
            time.sleep(0.001)
        time.sleep(after)
        process.kill()


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_a_daemon_killed_again_and_again_while_it_recovers_ends_in_the_same_state(paddock: Paddock, kills: int) -> None:
    left_by_a_killed_daemon(paddock)
    chance = random.Random(kills)

    for number in range(kills):  # the later ones get further: nothing may be left to do for them
        kill_while_it_recovers(paddock, chance.uniform(0, LONGEST) * number / kills)
    with daemon(paddock):
        pass

    found = state(paddock)
    assert Counter(row["state"] for row in found["effects"]) == {"in_doubt": EFFECTS}
    assert {row["fence"] for row in found["effects"]} == {1}
    ended = [row for row in found["approvals"] if row["state"] != "pending"]
    assert [row["state"] for row in ended] == ["expired"] * WAITING
    assert len(found["approvals"]) == 2 * WAITING
    assert Counter(kind for kind, _ in found["told"]) == {"effect.in_doubt": EFFECTS, "approval.ended": WAITING}
    assert set(found["told"].values()) == {1}, "each is told once"
    waits = Counter(row["kind"] for row in found["queue"])
    assert waits == {RECOVER_JOB: EFFECTS // 2}, "no request that waits is a job"
    assert found["leases"] == set()
    assert paddock("ledger", "verify", "--json").json["verdict"] == "sound"
    with daemon(paddock):
        pass
    assert state(paddock) == found, "and stays in it"


def test_what_is_overdue_ends_before_anything_goes_on_and_what_was_approved_is_made(
    paddock: Paddock, sent: Path
) -> None:
    late, good = asked(paddock, "late"), asked(paddock, "good")
    change(paddock, "UPDATE approvals SET state = 'approved'")  # and whoever said so was killed then
    change(paddock, "UPDATE approvals SET expires_at = ? WHERE id = ?", PAST, late)

    with daemon(paddock) as running:
        eventually(sent.exists, "what was approved is made")
        call = paddock("approval", "show", late, "--json").json["call_id"]
        assert running.ask("GET", f"/calls/{call}").body["error"]["code"] == "approval.expired"

    assert sent.read_text() == "good\n"
    assert {row["id"]: row["state"] for row in state(paddock)["approvals"]} == {late: "expired", good: "consumed"}


def test_a_yes_is_void_where_the_ledger_is_broken_by_then_and_its_call_is_never_made(
    paddock: Paddock, sent: Path
) -> None:
    good = asked(paddock, "good")
    change(paddock, "UPDATE approvals SET state = 'approved'")  # and whoever said so was killed then
    checkpoint_file(paddock.home / "state", "default").unlink(missing_ok=True)  # what is signed nobody looks at anew
    change(paddock, "UPDATE ledger SET plugin = 'other' WHERE seq = 1")

    def shown() -> dict[str, Any]:
        return paddock.quickly("approval", "show", good, "--json").json

    with daemon(paddock) as running:
        eventually(lambda: running.ask("GET", f"/approvals/{good}").body["state"] == "voided", "the yes is void")
    assert "the ledger of default is not what was recorded" in shown()["ended_why"]
    change(paddock, "UPDATE ledger SET plugin = 'mail' WHERE seq = 1")
    with daemon(paddock) as running:
        ended = running.ask("GET", f"/calls/{shown()['call_id']}").body
        assert (ended["status"], ended["error"]["code"]) == ("failed", "approval.voided")
    assert paddock.quickly("ledger", "verify", "--json").json["verdict"] == "sound"
    assert not sent.exists(), "nor is it made once the ledger is whole again"


@pytest.mark.slow
def test_calls_that_wait_when_a_daemon_is_killed_are_made_once_by_the_next_when_they_are_approved(
    paddock: Paddock, sent: Path
) -> None:
    def jobs() -> list[dict[str, Any]]:
        with open_direct(paddock.home / "data" / "paddock.db") as database:
            return database.read(lambda tx: tx.all("SELECT kind FROM queue WHERE kind <> ?", (EFFECT_RETENTION_JOB,)))

    with doomed(paddock) as running:
        running.told(event="ready")
        waits = [
            running.ask("POST", "/plugins/mail/call/send?detach=1" if number % 2 else "/calls", body).body["call_id"]
            for number in range(6)
            for body in ({"to": str(number)} if number % 2 else {"name": "mail.send", "params": {"to": str(number)}},)
        ]

        def requests() -> list[dict[str, Any]]:
            return running.ask("GET", "/approvals").body["approvals"]

        eventually(lambda: len(requests()) == len(waits), "all wait")
        approvals = {one["call_id"]: one["id"] for one in requests()}
        running.process.kill()
    assert jobs() == []

    with doomed(paddock) as running:
        running.told(event="ready")
        assert {running.ask("GET", f"/calls/{call}").body["status"] for call in waits} == {"pending_approval"}
        running.ask("POST", f"/approvals/{approvals[waits[0]]}/approve", {})
        running.ask("POST", f"/approvals/{approvals[waits[1]]}/deny", {})
        eventually(sent.exists, "the call is made")
        eventually(lambda: running.ask("GET", f"/calls/{waits[0]}").body["status"] == "succeeded", "it has ended")
        running.process.kill()

    with daemon(paddock) as running:
        for call in waits[2:]:
            running.ask("POST", f"/approvals/{approvals[call]}/approve", {})
        eventually(lambda: len(sent.read_text().splitlines()) == 5, "the others are made")
        assert running.ask("GET", f"/calls/{waits[1]}").body["error"]["code"] == "approval.denied"
    assert sorted(sent.read_text().split()) == ["0", "2", "3", "4", "5"]
    assert jobs() == []
    assert paddock.quickly("ledger", "verify", "--json").json["verdict"] == "sound"
