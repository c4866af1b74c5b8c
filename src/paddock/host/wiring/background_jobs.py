"""What a daemon does by itself when its time has come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial

from paddock.approvals.consume import EXPIRE_JOB
from paddock.approvals.model import OPEN_STATES
from paddock.approvals.service import Approvals
from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, NotFound, StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.calls.registry import MAX_ENDED_CALLS, CallRegistry
from paddock.gate.calls.resume import PendingCallResumer
from paddock.gate.effects.coordinator import recovery_job_type_at
from paddock.gate.effects.polling import POLL_JOB, OperatorPoller
from paddock.gate.gate import Gate
from paddock.gate.idempotency.records import RECOVER_JOB
from paddock.gate.idempotency.retention import expire_results
from paddock.gate.recovery import CallJournal, EffectRecovery
from paddock.ledger.write.append import TransactionLedger
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.queue.queue import Job
from paddock.queue.schedule import RescheduleAt, RetryPolicy
from paddock.queue.worker import EventSinkFactory, JobType, Worker, open_worker
from paddock.runtime.calls import MAX_CALL_S
from paddock.store.database import Database

FORGET_EFFECTS = "effect.forget"
_FORGET_INTERVAL = timedelta(hours=1)
_FORGET_BATCH_ROWS = 1000

RETRY_FOR_A_DAY = RetryPolicy(max_delay_s=900.0, max_tries=105)
"""For what only has to wait: a plugin may be switched off for a while, or whatever it asks may be down."""


def approval_expiry_job(approvals: Approvals, resumption: PendingCallResumer) -> JobType:
    """Ends requests that nobody answered in time, and the calls that waited for them."""

    async def expire(work: Job) -> RescheduleAt | None:
        try:
            over = await approvals.expire_one(work.tenant, work.key)
            if over is not None:
                await resumption.on_answered(over)
                return None
            still = await approvals.find(work.tenant, work.key)
        except NotFound:
            return None
        # The clock was set back: its time is not over.
        return RescheduleAt(datetime.fromisoformat(still.binding.expires_at)) if still.state in OPEN_STATES else None

    return JobType(expire)


def effect_retention_job(database: Database, clock: Clock, keep: timedelta) -> JobType:
    """Lets go of what came of effects once it was kept for that long, a thousand at a time."""

    async def forget(_work: Job) -> RescheduleAt | None:
        now = clock.now()
        some = partial(expire_results, before=(now - keep).isoformat(), now=now.isoformat(), limit=_FORGET_BATCH_ROWS)
        while await database.write(some) == _FORGET_BATCH_ROWS:
            pass
        return RescheduleAt(now + _FORGET_INTERVAL)

    return JobType(forget, RETRY_FOR_A_DAY)


def recovery_job(recovery: EffectRecovery) -> JobType:
    """Finds out what became of effects. What cannot be found out in a day waits for a person, or for the next start."""

    async def recover(work: Job) -> RescheduleAt | None:
        return await recovery.recover(work.tenant, work.key)

    return JobType(recover, RETRY_FOR_A_DAY, timeout_s=MAX_CALL_S + 60)


def polling_job(looks: OperatorPoller) -> JobType:
    """Asks operators that are still at work. What they say is no failure: those count where hosts die over it."""
    return JobType(looks.run_job, timeout_s=MAX_CALL_S + 60, on_given_up=looks.on_given_up)


def build_recovery(
    gate: Gate, database: Database, clock: Clock, random: Random, notes: CallJournal, settle: timedelta
) -> EffectRecovery:
    """What finds out what became of effects; see `open_timed_work`. A command does that for whoever waits for it."""
    return EffectRecovery(gate, database, clock, notes, ledger_publisher(clock, random), settle)


def ledger_publisher(clock: Clock, random: Random) -> EventSinkFactory:
    """Where a unit of work that the host does by itself tells what it did."""
    return lambda tx, tenant, call: TransactionLedger(tx, clock, random, tenant, call)


@asynccontextmanager
async def open_background_jobs(
    database: Database,
    node: Node,
    clock: Clock,
    random: Random,
    *,
    gate: Gate,
    approvals: Approvals,
    resumption: PendingCallResumer,
    notes: CallJournal,
    calls: CallRegistry,
    keep: timedelta = timedelta(days=30),
    settle: timedelta = timedelta(seconds=10),
) -> AsyncGenerator[Worker, None]:
    """Do what falls due for as long as the block runs; `keep` says how long what came of effects is kept, and `settle`
    how long after a first look it is certain that one has not happened."""

    def worker_of(kinds: Mapping[str, JobType]) -> Worker:
        return Worker(database, node, clock, random, kinds, ledger_publisher(clock, random))

    recover = recovery_job(build_recovery(gate, database, clock, random, notes, settle))
    # The host's own work has places of its own: plugins that hang, of however many tenants, hold up none of it.
    own = {
        EXPIRE_JOB: approval_expiry_job(approvals, resumption),
        FORGET_EFFECTS: effect_retention_job(database, clock, keep),
    }
    of_plugins = {RECOVER_JOB: recover, recovery_job_type_at(node.name): recover}
    if gate.long_running is not None:
        of_plugins[POLL_JOB] = polling_job(gate.long_running.poller)
    with suppress(StoreUnavailable):  # a full disk does not keep a host from starting
        await gate.starter.effects.schedule_recoveries()
        if gate.long_running is not None:
            await gate.long_running.reschedule_parked()
        with suppress(Busy):  # then at the next start
            now = clock.now()
            await database.write(lambda tx: queue.enqueue(tx, DEFAULT_TENANT, FORGET_EFFECTS, "old", due=now, now=now))
    async with open_worker(worker_of(own), node), open_worker(worker_of(of_plugins), node) as worker:
        gate.starter.effects.on_in_doubt = worker.wake
        if gate.long_running is not None:
            gate.long_running.on_parked = worker.wake
            for effect, target, context in await gate.long_running.list_parked(MAX_ENDED_CALLS):
                calls.restore_in_progress(effect.call, target, context, effect.started_at or effect.claimed_at)
        yield worker
