"""Background jobs of a daemon: effect recovery, operator polling and result retention."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial

from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.calls.recent_calls import MAX_ENDED_CALLS
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.effects.in_doubt import recovery_job_type_at
from paddock.gate.effects.poller import OperatorPoller
from paddock.gate.gate import Gate
from paddock.gate.idempotency.records import POLL_JOB, RECOVER_JOB
from paddock.gate.idempotency.retention import expire_results
from paddock.gate.recovery import EffectRecovery, EndCall
from paddock.ledger.write.append import TransactionLedger
from paddock.queue import queue
from paddock.queue.job import Job
from paddock.queue.lifespan import open_worker
from paddock.queue.node import Node
from paddock.queue.schedule import RescheduleAt, RetryPolicy
from paddock.queue.worker import EventSinkFactory, JobType, Worker
from paddock.runtime.calls import MAX_CALL_S
from paddock.store.database import Database

EFFECT_RETENTION_JOB = "effect.forget"
_RETENTION_INTERVAL = timedelta(hours=1)
_RETENTION_BATCH_ROWS = 1000

RETRY_FOR_A_DAY = RetryPolicy(max_delay_s=900.0, max_tries=105)
"""For jobs that only have to wait: a plugin may be disabled for a while, or its upstream may be down."""


def effect_retention_job(database: Database, clock: Clock, retention: timedelta) -> JobType:
    """Job that deletes stored effect results older than `retention`, in batches."""

    async def forget(_job: Job) -> RescheduleAt | None:
        now = clock.now()
        expire_batch = partial(
            expire_results, before=(now - retention).isoformat(), now=now.isoformat(), limit=_RETENTION_BATCH_ROWS
        )
        while await database.write(expire_batch) == _RETENTION_BATCH_ROWS:
            pass
        return RescheduleAt(now + _RETENTION_INTERVAL)

    return JobType(forget, RETRY_FOR_A_DAY)


def recovery_job(recovery: EffectRecovery) -> JobType:
    """Job that recovers effects. After a day of failed tries the effect waits for a person or the next start."""

    async def recover(job: Job) -> RescheduleAt | None:
        return await recovery.recover(job.tenant, job.key)

    return JobType(recover, RETRY_FOR_A_DAY, timeout_s=MAX_CALL_S + 60)


def polling_job(poller: OperatorPoller) -> JobType:
    """Job that polls long-running operators. "Still working" is no failure; only polls that kill the host count."""
    return JobType(poller.run_job, timeout_s=MAX_CALL_S + 60, on_given_up=poller.on_given_up)


def build_recovery(
    gate: Gate, database: Database, clock: Clock, random: Random, end_call: EndCall, settle_time: timedelta
) -> EffectRecovery:
    """Build the effect recovery; see `open_background_jobs`. A one-shot command runs it for its own calls."""
    return EffectRecovery(gate, database, clock, end_call, ledger_publisher(clock, random), settle_time)


def ledger_publisher(clock: Clock, random: Random) -> EventSinkFactory:
    """Build the event sink factory for transactions that the host makes by itself."""
    return lambda tx, tenant, call: TransactionLedger(tx, clock, random, tenant, call)


@asynccontextmanager
async def open_background_jobs(
    database: Database,
    node: Node,
    clock: Clock,
    random: Random,
    *,
    gate: Gate,
    end_call: EndCall,
    calls: CallRegistry,
    plugin_jobs_woken: asyncio.Event,
    retention: timedelta = timedelta(days=30),
    settle_time: timedelta = timedelta(seconds=10),
) -> AsyncGenerator[Worker, None]:
    """Run due jobs while the block runs.

    `plugin_jobs_woken` is set when a recovery or poll was enqueued, see `build_gate`.
    `retention` is how long effect results are kept; `settle_time` how long after a first probe a "not found" is final.
    """

    def build_worker(job_types: Mapping[str, JobType], woken: asyncio.Event | None = None) -> Worker:
        return Worker(database, node, clock, random, job_types, ledger_publisher(clock, random), woken=woken)

    recover_job = recovery_job(build_recovery(gate, database, clock, random, end_call, settle_time))
    # The host's own jobs have a worker of their own: hanging plugins, of however many tenants, cannot delay them.
    host_jobs = {EFFECT_RETENTION_JOB: effect_retention_job(database, clock, retention)}
    plugin_jobs = {
        RECOVER_JOB: recover_job,
        recovery_job_type_at(node.name): recover_job,
        POLL_JOB: polling_job(gate.long_running.poller),
    }
    with suppress(StoreUnavailable):  # a full disk must not keep a host from starting
        await gate.starter.effects.in_doubt.schedule_recoveries()
        await gate.long_running.reschedule_parked()
        with suppress(Busy):  # retried at the next start
            now = clock.now()
            await database.write(
                lambda tx: queue.enqueue(tx, DEFAULT_TENANT, EFFECT_RETENTION_JOB, "old", due=now, now=now)
            )
    async with (
        open_worker(build_worker(host_jobs), node),
        open_worker(build_worker(plugin_jobs, plugin_jobs_woken), node) as worker,
    ):
        for effect, target, context in await gate.long_running.list_parked(MAX_ENDED_CALLS):
            calls.restore_in_progress(effect.call, target, context, effect.started_at or effect.claimed_at)
        yield worker
