"""One host in a process of its own, with so many requests that wait for a person: fills its home, or measures it.

Run by `waiting.py` as `_waiting_host.py HOME fill|measure|across COUNT STORE ROUNDS DUE`, it prints one line of JSON.
STORE is `-` for the embedded one, or the address of a PostgreSQL database.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import uvloop
from msgspec.structs import replace

from paddock import Config, open_host
from paddock.approvals.request import ApprovalRequest, create_request
from paddock.approvals.store import ApprovalTransaction, find_request
from paddock.config.directories import find_directories
from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import NeedsApproval
from paddock.core.ids import DEFAULT_TENANT, CallId, PrincipalId, RequestId
from paddock.daemon.run import tune_garbage_collector
from paddock.gate.idempotency import records
from paddock.host.host import Host
from paddock.host.inbox.inbox import ALL_KINDS
from paddock.host.inbox.source import InboxQuery
from paddock.queue import leases
from paddock.store.database import Transaction, open_direct

OPERATING: Final = Principal(PrincipalId("local:ann"), roles=frozenset({OPERATOR}), kind="local", interactive=True)
APPROVER: Final = Principal(PrincipalId("user:eve"), roles=frozenset({"approver"}), interactive=True)
NOBODY: Final = Principal(PrincipalId("user:nell"), interactive=True)
AGENTS: Final = 1_000  # that ask; each has its share of the requests
TO: Final = {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}}
PARAMS: Final = {"to": "bob@example.org", "text": "Dear Bob, " + "thank you for your letter. " * 8}
TOOLS: Final = [
    {"name": "look", "description": "Looks", "effects": ["read_only"], "input_schema": {"type": "object"}},
    {"name": "send", "description": "Sends", "effects": ["external_send"], "input_schema": TO},
]
MANIFEST: Final = {"paddock": 1, "name": "mail", "version": "1.0.0", "description": "Mail", "tools": TOOLS}
ROWS_PER_UNIT: Final = 1_000
DUE_AT_ONCE: Final = 10_000


def send(to: str, text: str) -> dict[str, Any]:
    return {"sent": to, "chars": len(text)}


@asynccontextmanager
async def mail_host(home: Path, store: str) -> AsyncGenerator[Host, None]:
    environ = {"PADDOCK_LIMITS_WAITING_PER_PRINCIPAL": "1000000"}
    if store != "-":
        environ["PADDOCK_STORE_URL"] = store
    async with open_host(Config(home=home, environ=environ)) as host:
        tune_garbage_collector()
        await host.embed(MANIFEST, {"look": lambda: {"seen": True}, "send": send})
        yield host


def context_of(name: str) -> CallContext:
    caller = Principal(PrincipalId(name), roles=frozenset({OPERATOR}), kind="local", interactive=True)
    return CallContext(caller, RequestId("req_bench"), tenant=DEFAULT_TENANT)


async def asked(host: Host, name: str) -> Any:
    """A call that waits; what its caller is told. The caller is gone then."""
    try:
        await host.call("mail.send", PARAMS, context=context_of(name))
    except NeedsApproval as waits:
        return dict(waits.details)
    raise AssertionError("nobody is asked")


# --- filling ----------------------------------------------------------------------------------------------------------


async def fill(home: Path, count: int, store: str) -> dict[str, Any]:
    async with mail_host(home, store) as host:
        like = await asked(host, "local:agent0")
        await host.approvals.deny(like["approval"], OPERATING)
    began = time.perf_counter()
    where = find_directories({"PADDOCK_HOME": str(home)}, home).database_file if store == "-" else store
    with open_direct(where) as database:
        for start in range(0, count, ROWS_PER_UNIT):
            numbers = range(start, min(count, start + ROWS_PER_UNIT))
            database.write(lambda tx, numbers=numbers: _insert(tx, like["approval"], numbers))
        if store != "-":
            import psycopg

            with psycopg.connect(store, autocommit=True) as connection:
                connection.execute("ANALYZE")
    return {"seconds": time.perf_counter() - began}


class _Unheard:
    def publish(self, event: object) -> None:
        """What was asked long ago is in the ledger, and not a part of this."""


def _insert(tx: Transaction, like: str, numbers: range) -> None:
    clock, random = SystemClock(), SystemRandom()
    first = find_request(tx, DEFAULT_TENANT, like)
    here = leases.open_lease(tx, "node_bench", daemon=False)
    unit = ApprovalTransaction(tx, DEFAULT_TENANT, clock.now().isoformat(), clock, random, lambda *_: _Unheard())
    for number in numbers:
        name, call = f"local:agent{number % AGENTS}", CallId(f"call_{number:026}")
        request = ApprovalRequest(
            call=call,
            subject=first.binding.subject,
            kind=first.kind,
            payload=first.payload,
            context={**first.context, "principal": name},
            requester=name,
            for_person=name,
            approvers=first.binding.approvers,
            quorum=1,
            four_eyes=False,
            reason=first.reason,
            policy_version=first.policy_version,
            remember=first.remember,
        )
        approval = create_request(unit, request, f"token-{number}")
        # They do not end while this is measured.
        far = replace(approval.binding, expires_at=(clock.now() + timedelta(days=7)).isoformat())
        tx.execute(
            "UPDATE approvals SET expires_at = ?, binding = ?, binding_hash = ? WHERE id = ?",
            (far.expires_at, json.dumps(far.to_json()), far.hash(), approval.id),
        )
        tx.execute("UPDATE approval_parties SET expires_at = ? WHERE approval = ?", (far.expires_at, approval.id))
        effect = records.claim(
            tx,
            records.EffectKey(DEFAULT_TENANT, "mail", "send", call),
            call=call,
            payload_hash=far.payload_hash,
            holder=here,
            recovery="none",
            now=unit.now,
            principal=name,
        )
        assert effect is not None
        records.mark_awaiting_approval(tx, effect)
    leases.end_lease(tx, here)


# --- measuring --------------------------------------------------------------------------------------------------------


async def measure(home: Path, count: int, store: str, rounds: int, due: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    began = time.perf_counter()
    async with mail_host(home, store) as host:
        found["ready_s"] = time.perf_counter() - began
        await asyncio.sleep(0.5)
        found["memory_kb"], found["tasks"] = _memory_kb(), len(asyncio.all_tasks())
        for who, by in (("operator", OPERATING), ("approver", APPROVER), ("nobody", NOBODY)):
            found[f"inbox_{who}"] = await _times(rounds, lambda by=by: _inbox(host, by))
            found[f"list_{who}"] = await _times(rounds, lambda by=by: host.approvals.list_requests("default", to=by))
        found["followed"] = await _times(rounds, lambda: _answered_while_followed(host), first=True)
        if count:
            ids = [item.id for item in (await host.inbox.page(InboxQuery(APPROVER, ALL_KINDS, limit=rounds))).items]
            found["stored"] = await _times(len(ids), lambda: _answered_while_stored(host, ids.pop()), first=True)
        made, before = rounds * 20, 0.0
        for number in range(2 * made):
            if number == made:  # what grows at first are caches, of the database and of others
                before = _memory_kb()
            await asked(host, f"local:agent{number % AGENTS}")
        found["made_kb_each"] = (_memory_kb() - before) / made
        found["tasks_after"] = len(asyncio.all_tasks())
        if due and count >= due:
            found |= await _expired(host, home, store, due)
    return found


async def _inbox(host: Host, by: Principal) -> None:
    await host.inbox.page(InboxQuery(by, ALL_KINDS, limit=50))
    await host.inbox.counts(by)


async def _answered_while_followed(host: Host) -> float:
    waits = await asked(host, "local:follower")
    live = await host.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)
    ended = asyncio.ensure_future(_ended_at(live))
    await asyncio.sleep(0)
    began = time.perf_counter()
    await host.approvals.approve(waits["approval"], OPERATING)
    return await ended - began


async def _answered_while_stored(host: Host, approval: str) -> float:
    began = time.perf_counter()
    answered = await host.approvals.approve(approval, OPERATING)
    live = await host.calls.waiting.find(answered["call_id"], DEFAULT_TENANT)
    return await _ended_at(live) - began


async def _ended_at(live: Any) -> float:
    async with asyncio.timeout(60):
        await live.wait_ended()
    assert live.status == "succeeded", live.to_json()
    return time.perf_counter()


async def across(home: Path, store: str, rounds: int) -> dict[str, Any]:
    """An answer that is given at one host, until a call has ended that is followed at another."""
    async with mail_host(home / "asking", store) as asking, mail_host(home / "answering", store) as answering:

        async def one() -> float:
            waits = await asked(asking, "local:follower")
            live = await asking.calls.waiting.find(waits["call_id"], DEFAULT_TENANT)
            ended = asyncio.ensure_future(_ended_at(live))
            await asyncio.sleep(0)
            began = time.perf_counter()
            await answering.approvals.approve(waits["approval"], OPERATING)
            return await ended - began

        return {"across": await _times(rounds, one, first=True)}


async def _expired(host: Host, home: Path, store: str, due: int) -> dict[str, Any]:
    """Many requests become due at once, while other calls are made one after another."""
    reads: list[float] = []
    quiet = await _times(200, lambda: host.call("mail.look", {}, context=context_of("local:ann")))
    where = find_directories({"PADDOCK_HOME": str(home)}, home).database_file if store == "-" else store

    def make_due(tx: Transaction) -> None:
        now = datetime.now(UTC).isoformat()
        tx.execute(
            "UPDATE approvals SET expires_at = ? WHERE id IN"
            " (SELECT id FROM approvals WHERE state = 'pending' ORDER BY id LIMIT ?)",
            (now, due),
        )

    def count_expired(tx: Transaction) -> int:
        return (tx.one("SELECT COUNT(*) AS many FROM approvals WHERE state = 'expired'") or {"many": 0})["many"]

    def look() -> int:
        with open_direct(where, only_connection=False) as database:
            return database.read(count_expired)

    def change() -> None:
        with open_direct(where, only_connection=False) as database:
            database.write(make_due)

    async def read_on() -> None:
        while True:
            began = time.perf_counter()
            await host.call("mail.look", {}, context=context_of("local:ann"))
            reads.append(time.perf_counter() - began)
            await asyncio.sleep(0.002)

    await asyncio.to_thread(change)
    while await asyncio.to_thread(look) == 0:  # noqa: ASYNC110 - the host looks for deadlines that others changed
        await asyncio.sleep(0.05)
    began, reading = time.perf_counter(), asyncio.ensure_future(read_on())
    while await asyncio.to_thread(look) < due:  # noqa: ASYNC110 - rows say when it is over
        await asyncio.sleep(0.1)
    seconds = time.perf_counter() - began
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
    return {"expiry_s": seconds, "beside": _quantiles(reads), "alone": quiet}


async def _times(rounds: int, work: Callable[[], Awaitable[Any]], *, first: bool = False) -> dict[str, float]:
    """The quantiles of so many runs; with `first` those of the seconds that each run returns."""
    runs: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        returned = await work()
        runs.append(returned if first else time.perf_counter() - began)
    return _quantiles(runs)


def _quantiles(runs: list[float]) -> dict[str, float]:
    return {
        "p50": statistics.median(runs),
        "p99": statistics.quantiles(runs, n=100)[98] if len(runs) > 1 else runs[0],
        "worst": max(runs),
    }


def _memory_kb() -> float:
    """What the process has in memory by itself, without what it shares with others."""
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


def main() -> None:
    home, mode, count, store, rounds, due = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:7]
    match mode:
        case "fill":
            work = fill(home, count, store)
        case "across":
            work = across(home, store, int(rounds))
        case _:
            work = measure(home, count, store, int(rounds), int(due))
    print(json.dumps(uvloop.run(work)))


if __name__ == "__main__":
    main()
