"""The engine on PostgreSQL: jobs as jobs of procrastinate, put and ended by its SQL functions in units of work of ours.

A job has our facts in its arguments. It is fenced by its holder, the id under which the run that fetched it is
registered with the engine, and by the claim: the job's id and its tries. The engine itself checks no worker when a job
is finished, so everything done in the name of a holder begins with `_HELD`, which locks the job until the unit is over,
or finds it gone.

What waits again is a new job: the engine can retry one, but changes neither its arguments nor tells its workers of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

import orjson

from paddock.queue.claimants import Claimant
from paddock.queue.job import Job, JobName, WaitingJob, job_from_row
from paddock.queue.leases import NodeRun
from paddock.store.transaction import Transaction

# ruff: noqa: S608 - queries are built from our own names and placeholders only

NAME = (  # as in the index `paddock_job_names`
    '(args ->> \'tenant\') COLLATE "C" = ? AND task_name::text COLLATE "C" = ? AND (args ->> \'key\') COLLATE "C" = ?'
)
_OPEN = f"SELECT id FROM procrastinate_jobs WHERE {NAME} AND status IN ('todo', 'doing') FOR UPDATE"
_HELD = (
    "SELECT id FROM procrastinate_jobs WHERE id = ? AND (args ->> 'tries')::bigint + attempts + 1 = ? "
    "AND status = 'doing' AND worker_id = ? FOR UPDATE"
)
_FINISH = "SELECT procrastinate_finish_job_v1(job.id, 'succeeded', TRUE) FROM ({jobs}) AS job"
_PUT = """SELECT procrastinate_defer_jobs_v1(ARRAY(
    SELECT ROW(job ->> 'queue', job ->> 'kind', 0, NULL, NULL, job -> 'args',
               CASE WHEN job -> 'wait' > '0' THEN now() + (job ->> 'wait')::double precision * interval '1 second' END
           )::procrastinate_job_to_defer_v1
    FROM jsonb_array_elements(?::jsonb) AS job)) AS ids"""


@lru_cache(maxsize=4096)
def queue_name(claimant: Claimant) -> str:
    """The engine's queue of a tenant and kind. Short: channels are named for it, and have at most 63 bytes."""
    return f"{_digest(claimant.kind)[:12]}.{_digest(claimant.tenant)[:16]}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class EngineJobs:
    """Jobs of the engine; see `JobStore`."""

    def put(self, tx: Transaction, jobs: Sequence[WaitingJob]) -> None:
        if jobs:
            tx.one(_PUT, (orjson.dumps([_to_defer(job) for job in jobs]).decode(),))

    def expedite(self, tx: Transaction, name: JobName, now: datetime) -> bool:
        row = tx.one(
            f"SELECT id, args, attempts FROM procrastinate_jobs WHERE {NAME} AND status = 'todo' FOR UPDATE",
            _values(name),
        )
        if row is None:
            return False
        tx.one(_FINISH.format(jobs="SELECT ?::bigint AS id"), (row["id"],))
        args: dict[str, Any] = row["args"]
        self.put(tx, [WaitingJob(name, args["payload"], now, now, args["tries"] + row["attempts"], args["reason"])])
        return True

    def remove(self, tx: Transaction, name: JobName) -> bool:
        return bool(tx.all(_FINISH.format(jobs=_OPEN), _values(name)))

    def claim(self, tx: Transaction, name: JobName, run: NodeRun, now: datetime) -> Job | None:  # noqa: ARG002 - its clock
        claimed = tx.execute(
            f"UPDATE procrastinate_jobs SET status = 'doing', worker_id = ? WHERE {NAME} AND status = 'todo' "
            "AND (scheduled_at IS NULL OR scheduled_at <= now())",
            (run.epoch, *_values(name)),
        )
        if not claimed:
            return None
        row = tx.one("SELECT * FROM queue WHERE tenant = ? AND kind = ? AND key = ?", name)
        assert row is not None
        return job_from_row(row, run)

    def lock_held(self, tx: Transaction, job: Job) -> bool:
        return bool(tx.all(_HELD, _holder_values(job)))

    def complete(self, tx: Transaction, job: Job) -> bool:
        return bool(tx.all(_FINISH.format(jobs=_HELD), _holder_values(job)))

    def replace(self, tx: Transaction, job: Job, after: WaitingJob) -> bool:
        held = self.complete(tx, job)
        if held:
            self.put(tx, [after])
        return held

    def release_held_by(self, tx: Transaction, run: NodeRun) -> int:
        return len(tx.all(f"{_RETRY} WHERE status = 'doing' AND (worker_id = ? OR worker_id IS NULL)", (run.epoch,)))


_RETRY = "SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM procrastinate_jobs"


def _values(name: JobName) -> tuple[str, str, str]:
    return (name.tenant, name.kind, name.key)


def _holder_values(job: Job) -> tuple[int, int, int]:
    return (job.claim, job.tries, job.holder.epoch)


def _to_defer(job: WaitingJob) -> dict[str, Any]:
    # The payload is text: jsonb would refuse a NUL in it, and change its numbers.
    args = {
        "tenant": job.name.tenant,
        "key": job.name.key,
        "payload": job.payload,
        "put_at": job.put_at.isoformat(),
        "due_at": job.due.isoformat(),
        "tries": job.tries,
        "reason": job.reason,
    }
    claimant = Claimant(job.name.tenant, job.name.kind)
    return {"queue": queue_name(claimant), "kind": job.name.kind, "args": args, "wait": job.wait_s}
