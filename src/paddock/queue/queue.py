"""The job queue: durable and timed jobs, stored by either engine until they are done.

Every function is part of its caller's unit of work, so a job is enqueued atomically with the change it belongs to, and
completed atomically with its result. Delivery is at least once: if a worker dies, another runs the job again. A handler
that must not act twice records that it acted, in the unit that completes the job.

A claimed job is held for as long as the holder has its lease; see `leases.py`. Afterwards the job is free for others,
and nothing done in the name of the old holder is accepted.

Jobs are rows of ours on the embedded engine (`job_rows.py`), and jobs of procrastinate on PostgreSQL
(`engine_jobs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from paddock.core.errors import Busy, CallerError, HostError
from paddock.queue import leases
from paddock.queue.engine_jobs import EngineJobs
from paddock.queue.job import Job, JobName, JobStore, WaitingJob
from paddock.queue.job_rows import JobRows
from paddock.queue.leases import NodeRun
from paddock.store.transaction import Transaction

__all__ = ["MAX_JOBS_PER_TENANT", "MAX_PAYLOAD_BYTES", "Job", "Transaction"]

MAX_JOBS_PER_TENANT = 20_000  # waiting at a time
MAX_PAYLOAD_BYTES = 64 * 1024  # per job

_STORES: Mapping[str, JobStore] = {"sqlite": JobRows(), "postgresql": EngineJobs()}


def enqueue(
    tx: Transaction,
    tenant: str,
    kind: str,
    key: str,
    *,
    due: datetime,
    now: datetime,
    payload: Mapping[str, Any] | None = None,
) -> bool:
    """Enqueue a job; False if it exists already, which then stays as it is.

    Raises:
        Busy: `queue.full`, the tenant has as many waiting jobs as it may.
        CallerError: `queue.payload`, the payload is too large for a row; store it elsewhere and put its name here.
    """
    content = orjson.dumps(payload or {})
    if len(content) > MAX_PAYLOAD_BYTES:
        raise CallerError(
            f"no more than {MAX_PAYLOAD_BYTES:,} bytes can wait with one thing to do", code="queue.payload"
        )
    if tx.one("SELECT 1 AS found FROM queue WHERE tenant = ? AND kind = ? AND key = ?", (tenant, kind, key)):
        return False
    # Checked before the insert, so that a caller that can do without the job may continue its unit of work.
    if tx.one("SELECT 1 AS found FROM queue WHERE tenant = ? LIMIT 1 OFFSET ?", (tenant, MAX_JOBS_PER_TENANT - 1)):
        raise Busy(
            f"{tenant} has {MAX_JOBS_PER_TENANT:,} things waiting to be done, and that is the limit",
            code="queue.full",
            hint="wait until some of them are done",
        )
    _store(tx).put(tx, [WaitingJob(JobName(tenant, kind, key), content.decode(), now, due)])
    return True


def enqueue_many(tx: Transaction, tenant: str, jobs: Sequence[tuple[str, str]], *, due: datetime, now: datetime) -> int:
    """Enqueue many jobs of one tenant, each a kind and a key; as many as fit. Returns for how many there was room.

    Used for work lost with a host, where one statement each would take too long.
    """
    existing = {(row["kind"], row["key"]) for row in tx.all("SELECT kind, key FROM queue WHERE tenant = ?", (tenant,))}
    room = max(0, MAX_JOBS_PER_TENANT - len(existing))
    _store(tx).put(
        tx,
        [WaitingJob(JobName(tenant, kind, key), "{}", now, due) for kind, key in _new_names(jobs[:room], existing)],
    )
    return min(room, len(jobs))


def _new_names(jobs: Sequence[tuple[str, str]], existing: set[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    return [one for one in dict.fromkeys(jobs) if one not in existing]


def expedite(tx: Transaction, tenant: str, kind: str, key: str, *, now: datetime) -> bool:
    """Make a waiting job due now; False if it does not exist or is held."""
    return _store(tx).expedite(tx, JobName(tenant, kind, key), now)


def remove(tx: Transaction, tenant: str, kind: str, key: str) -> bool:
    """Remove a job. False if it does not exist; a worker that runs it right now cannot complete it."""
    return _store(tx).remove(tx, JobName(tenant, kind, key))


def find_due(tx: Transaction, tenant: str, kind: str, key: str) -> datetime | None:
    """Return when a job is due, or was due if it is held; None if it does not exist."""
    row = tx.one("SELECT due_at FROM queue WHERE tenant = ? AND kind = ? AND key = ?", (tenant, kind, key))
    return None if row is None else datetime.fromisoformat(row["due_at"])


def claim_one(tx: Transaction, run: NodeRun, tenant: str, kind: str, key: str, *, now: datetime) -> Job | None:
    """Claim one job by name, if it is unheld and due.

    Raises:
        HostError: `node.lost`, this run has lost its lease.
    """
    leases.require_lease(tx, run)
    return _store(tx).claim(tx, JobName(tenant, kind, key), run, now)


def require_held(tx: Transaction, job: Job) -> None:
    """Require that the job is still held by its holder; for units of work done on its behalf.

    Raises:
        HostError: `queue.stale`, it is not.
    """
    _require(_store(tx).lock_held(tx, job), job)


def complete(tx: Transaction, job: Job) -> None:
    """Delete a job that is done or given up.

    Raises:
        HostError: `queue.stale`, it is no longer held by its holder. The whole unit is rolled back.
    """
    _require(_store(tx).complete(tx, job), job)


def reschedule(tx: Transaction, job: Job, due: datetime, *, now: datetime, reason: str | None = None) -> None:
    """Release the job until later.

    Args:
        tx: The unit of work.
        job: The claimed job.
        due: When it is to run again.
        now: When that was decided.
        reason: The code of the failure. None means that the run succeeded and the job continues: earlier failures are
            reset.

    Raises:
        HostError: `queue.stale`, as in `complete`.
    """
    tries = 0 if reason is None else job.tries
    _require(_store(tx).replace(tx, job, _waiting(job, due, now, tries, reason)), job)


def release(tx: Transaction, job: Job) -> None:
    """Release the job as if it had not been claimed; harmless if another run holds it."""
    _store(tx).replace(tx, job, _waiting(job, job.due, job.due, job.tries - 1, None))


def release_held_by(tx: Transaction, run: NodeRun) -> int:
    """Release the jobs held by a run whose lease has ended; see `Node.subscribe`. Returns how many."""
    return _store(tx).release_held_by(tx, run)


def _waiting(job: Job, due: datetime, now: datetime, tries: int, reason: str | None) -> WaitingJob:
    return WaitingJob(job.name, orjson.dumps(job.payload).decode(), now, due, tries, reason)


def _store(tx: Transaction) -> JobStore:
    return _STORES[tx.engine]


def _require(held: bool, job: Job) -> None:
    if not held:
        raise HostError(
            f"{job.kind} {job.key} lost its lease: another worker holds this job",
            code="queue.stale",
            details={"kind": job.kind, "epoch": job.holder.epoch},
        )
