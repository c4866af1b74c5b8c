"""A governed effect against a governed read-only call, in one run: the difference is two group commits.

Both are the same function of the same caged plugin; one of them is declared to write. An effect waits for the disk
twice: for the record that it starts, and for what became of it. What one such wait takes stands beside them, measured
with units of work that write as much, a row and its entry in the ledger, each after a call as those of an effect are: a
thread that has waited and a disk that has rested take longer. Many effects at once share their commits; what the ledger
alone appends, for as many callers that wait for the disk, is the rate that no host exceeds. The same effects on
PostgreSQL, with the server's usual settings, have a transaction each, which all want the head of one chain; a caller
who has lost too many races for it calls again. CPU there is without that of the server.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import uvloop
from _calls import Measured, many_at_once, one_at_a_time
from _home import opened
from _notes import KEEP, LOOK, home_with_notes
from _postgres import postgres
from _side_by_side import Report, options

from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import StoreUnavailable
from paddock.core.events.calls import CallStarted
from paddock.core.ids import DEFAULT_TENANT, CallId, new_id
from paddock.gate.idempotency.records import EffectKey, claim, encode_call
from paddock.ledger.write.append import TransactionLedger
from paddock.queue.leases import NodeRun
from paddock.store.database import Transaction
from paddock.store.transaction import CheckedTransaction

FAIR = {"PADDOCK_LIMITS_CPU_WEIGHT": "1024"}
IN_FLIGHT = 64
READ_1, EFFECT_1, COMMIT_1 = "read 1", "effect 1", "a commit of a row and an entry"
READ, EFFECT, APPENDS = "read 64", "effect 64", "entries of the ledger, 64 callers that wait"
ON_POSTGRES, IN_FLIGHT_THERE = "effect 8, on PostgreSQL", 8
PARAMS = {"text": "hello"}
CLOCK, RANDOM = SystemClock(), SystemRandom()


async def measure(folder: Path, rounds: int, few: int, many: int) -> dict[str, list[Measured]]:
    home = home_with_notes(folder)
    found: dict[str, list[Measured]] = {name: [] for name in (READ_1, EFFECT_1, COMMIT_1, READ, EFFECT, APPENDS)}
    async with opened(home, FAIR) as host:
        context = host.operator_context(None)
        gate = host._gate  # pyright: ignore[reportPrivateUsage]
        database = gate.starter.database

        async def read() -> Any:
            return await host.call(LOOK, PARAMS, context=context)

        async def effect() -> Any:
            return await host.call(KEEP, PARAMS, context=context)

        async def commit() -> None:
            call = CallId(new_id("call", CLOCK, RANDOM))
            await database.write(lambda tx: _write(tx, call))

        async def append() -> None:
            call = new_id("call", CLOCK, RANDOM)
            await database.write(lambda tx: _record(tx, call))

        for number in range(-1, rounds):
            runs = {
                READ_1: await one_at_a_time(read, few),
                EFFECT_1: await one_at_a_time(effect, few),
                COMMIT_1: await one_at_a_time(commit, few, before=read),
                READ: await many_at_once(read, many, IN_FLIGHT),
                EFFECT: await many_at_once(effect, many, IN_FLIGHT),
                APPENDS: await many_at_once(append, many, IN_FLIGHT),
            }
            if number >= 0:
                for name, run in runs.items():
                    found[name].append(run)
    return found


async def measure_on_postgres(folder: Path, rounds: int, many: int) -> tuple[list[Measured], int]:
    """The runs, and how often a caller was told that the store is busy."""
    refused = 0
    with postgres(folder) as address:
        environ = FAIR | {"PADDOCK_STORE_URL": address}
        async with opened(home_with_notes(folder, environ), environ) as host:
            context = host.operator_context(None)

            async def effect() -> Any:
                nonlocal refused
                while True:
                    try:
                        return await host.call(KEEP, PARAMS, context=context)
                    except StoreUnavailable:
                        refused += 1

            await many_at_once(effect, many // 4, IN_FLIGHT_THERE)
            return [await many_at_once(effect, many, IN_FLIGHT_THERE) for _ in range(rounds)], refused


async def count_statements(folder: Path, many: int) -> float:
    """How many statements an effect takes, of so many with 64 under way; those of units that they share count once."""
    count = 0
    attempt = CheckedTransaction._attempt  # pyright: ignore[reportPrivateUsage]

    def counted(self: CheckedTransaction, *given: Any) -> Any:
        nonlocal count
        count += 1
        return attempt(self, *given)

    async with opened(home_with_notes(folder), FAIR) as host:
        context = host.operator_context(None)

        async def effect() -> Any:
            return await host.call(KEEP, PARAMS, context=context)

        await many_at_once(effect, many // 4, IN_FLIGHT)
        with patch.object(CheckedTransaction, "_attempt", counted):
            await many_at_once(effect, many, IN_FLIGHT)
    return count / many


def _record(tx: Transaction, call: str) -> None:
    event = CallStarted(
        name="notes", method="keep", version="1.0.0", digest="sha256:00", effects=("db_write",), request_id="req_1",
        operator_id=None, project_id=None, owner=None, payload_hash="sha256:11", decision="allow",
        policies=("operators-may-call",), policy_version="pol", approval=None,
    )  # fmt: skip
    TransactionLedger(tx, CLOCK, RANDOM, "default").record(
        event, call=call, request="req_1", principal="local:operator"
    )


def _write(tx: Transaction, call: CallId) -> None:
    """As much as is written when an effect starts."""
    now = CLOCK.now().isoformat()
    claim(
        tx,
        EffectKey(DEFAULT_TENANT, "notes", "kept", call),
        call=call,
        payload_hash="sha256:11",
        holder=NodeRun("bench", 1),
        recovery="none",
        now=now,
        principal="local:operator",
        stored_call=encode_call(PARAMS, {"request": "req_1"}),
    )
    _record(tx, call)


def main() -> None:
    given = options(__doc__)
    rounds, few, many = (2, 100, 1_000) if given.quick else (15, 500, 4_000)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        (here := Path(folder) / "embedded").mkdir()
        (there := Path(folder) / "shared").mkdir()
        (aside := Path(folder) / "counted").mkdir()
        Path(folder).chmod(0o755)  # the server runs as somebody else
        found = uvloop.run(measure(here, rounds, few, many))
        found[ON_POSTGRES], refused = uvloop.run(measure_on_postgres(there, max(1, rounds // 5), many // 8))
        statements = uvloop.run(count_statements(aside, many))
    report = Report(
        "effects",
        given,
        f"{few:,} calls one after another, {many:,} with {IN_FLIGHT} under way, {rounds} rounds in turn, the best of "
        "each. CPU is that of the host's process with all its threads.",
        ["what", "p50", "calls a second", "CPU a call"],
    )
    p50 = {name: min(run.p50 for run in found[name]) for name in (READ_1, EFFECT_1, COMMIT_1)}
    rate = {name: max(run.rate for run in runs) for name, runs in found.items()}
    for name, runs in found.items():
        cpu = min(run.cpu / run.calls for run in runs) * 1e6
        report.row(name, f"{p50[name] * 1e6:.0f} µs" if name in p50 else "", f"{rate[name]:,.0f}", f"{cpu:.0f} µs")
    added = p50[EFFECT_1] - p50[READ_1]
    report.says(f"an effect waits {added * 1e6:.0f} µs longer than a read: {added / p50[COMMIT_1]:.1f} group commits")
    report.says(f"on PostgreSQL {refused:,} calls were refused because the store was busy")
    report.says(f"an effect takes {statements:.1f} statements at {IN_FLIGHT}, with those of the ledger")
    report.says(f"effects at {IN_FLIGHT}, two entries each: {2 * rate[EFFECT] / rate[APPENDS]:.0%} of the entries that "
                "the ledger alone appends")  # fmt: skip
    report.finish()


if __name__ == "__main__":
    main()
