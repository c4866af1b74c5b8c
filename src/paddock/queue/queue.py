"""The job queue: durable and timed jobs, stored as rows on either engine until they are done.

Every function is part of its caller's unit of work, so a job is enqueued atomically with the change it belongs to, and
completed atomically with its result. Delivery is at least once: if a worker dies, another runs the job again. A handler
that must not act twice records that it acted, in the unit that completes the job.

A claimed job is held for as long as the holder has its lease; see `leases.py`. Afterwards the row is free for others,
and nothing done in the name of the old holder is accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson
from msgspec import Struct

from paddock.core.errors import Busy, CallerError, HostError
from paddock.core.ids import Tenant
from paddock.queue import leases
from paddock.queue.leases import NodeRun
from paddock.store.transaction import Row, Transaction


class Claimant(NamedTuple):
    """A tenant and job kind, which compete for slots."""

    tenant: str
    kind: str


def fair_shares(waiting: Mapping[Claimant, int], held: Mapping[Claimant, int], slots: int) -> dict[Claimant, int]:
    """Return how many more slots each claimant gets: one at a time, to the claimant with the fewest.

    Args:
        waiting: How many jobs of each claimant wait. Ties go to the earlier claimant in this order.
        held: How many slots each claimant has.
        slots: How many slots there are in all.
    """
    slots_used = {claimant: held.get(claimant, 0) for claimant in waiting}
    granted = dict.fromkeys(waiting, 0)
    for free in range(slots - sum(held.values()), 0, -1):
        eligible = [
            claimant for claimant in waiting if granted[claimant] < waiting[claimant] and slots_used[claimant] < free
        ]
        if not eligible:
            break
        first = min(eligible, key=slots_used.__getitem__)
        slots_used[first] += 1
        granted[first] += 1
    return {claimant: count for claimant, count in granted.items() if count}


def saturated_claimants(held: Mapping[Claimant, int], slots: int) -> Collection[Claimant]:
    """Return the claimants that get no further slot for now."""
    free = slots - sum(held.values())
    return [one for one, count in held.items() if count >= free]


MAX_JOBS_PER_TENANT = 20_000  # waiting at a time
MAX_PAYLOAD_BYTES = 64 * 1024  # per job
_ROWS_PER_INSERT = 50  # per statement
# How far the wall clocks of two hosts may differ. A host further behind would bring forward jobs of
# others; and jobs from before a clock was set back by less wait that much longer.
_MAX_CLOCK_SKEW = timedelta(minutes=1)

# ruff: noqa: S608 - queries are built from our own names and placeholders only

_JOB_WHERE = "tenant = ? AND kind = ? AND key = ?"
_HELD_JOB_WHERE = f"{_JOB_WHERE} AND node = ? AND epoch = ?"


class Job(Struct, frozen=True):
    """A claimed job, to be run now.

    Args:
        tenant: The owner of the job.
        kind: The type of job, as in `approval.expire`.
        key: Identifies the job within its tenant and kind.
        payload: The job's data. No secrets: it is stored unencrypted.
        due: When it was due.
        tries: How often it was started since it last succeeded, this time included.
        holder: The run that claimed it.
    """

    tenant: Tenant
    kind: str
    key: str
    payload: Mapping[str, Any]
    due: datetime
    tries: int
    holder: NodeRun

    @property
    def claimant(self) -> Claimant:
        return Claimant(self.tenant, self.kind)

    @property
    def holder_key(self) -> tuple[str, str, str, str, int]:
        return (self.tenant, self.kind, self.key, self.holder.node, self.holder.epoch)


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
    if tx.one(f"SELECT 1 AS found FROM queue WHERE {_JOB_WHERE}", (tenant, kind, key)):
        return False
    # Checked before the insert, so that a caller that can do without the job may continue its unit of work.
    if tx.one("SELECT 1 AS found FROM queue WHERE tenant = ? LIMIT 1 OFFSET ?", (tenant, MAX_JOBS_PER_TENANT - 1)):
        raise Busy(
            f"{tenant} has {MAX_JOBS_PER_TENANT:,} things waiting to be done, and that is the limit",
            code="queue.full",
            hint="wait until some of them are done",
        )
    inserted = tx.execute(
        "INSERT INTO queue (tenant, kind, key, payload, put_at, due_at, tries) VALUES (?, ?, ?, ?, ?, ?, 0)"
        " ON CONFLICT DO NOTHING",
        (tenant, kind, key, content.decode(), now.isoformat(), due.isoformat()),
    )
    return bool(inserted)


def enqueue_many(tx: Transaction, tenant: str, jobs: Sequence[tuple[str, str]], *, due: datetime, now: datetime) -> int:
    """Enqueue many jobs of one tenant, each a kind and a key; as many as fit. Returns how many that was.

    Used for work lost with a host, where one statement each would take too long.
    """
    existing = tx.one("SELECT count(*) AS count FROM queue WHERE tenant = ?", (tenant,))
    room = max(0, MAX_JOBS_PER_TENANT - (existing["count"] if existing else 0))
    for start in range(0, min(room, len(jobs)), _ROWS_PER_INSERT):
        batch = jobs[start : min(start + _ROWS_PER_INSERT, room)]
        rows = ", ".join(["(?, ?, ?, '{}', ?, ?, 0)"] * len(batch))
        tx.execute(
            f"INSERT INTO queue (tenant, kind, key, payload, put_at, due_at, tries) VALUES {rows}"
            " ON CONFLICT DO NOTHING",
            [value for kind, key in batch for value in (tenant, kind, key, now.isoformat(), due.isoformat())],
        )
    return min(room, len(jobs))


def expedite(tx: Transaction, tenant: str, kind: str, key: str, *, now: datetime) -> bool:
    """Make a waiting job due now; False if it does not exist or is held."""
    due = now.isoformat()
    return bool(
        tx.execute(f"UPDATE queue SET due_at = ? WHERE {_JOB_WHERE} AND node IS NULL", (due, tenant, kind, key))
    )


def remove(tx: Transaction, tenant: str, kind: str, key: str) -> bool:
    """Remove a job. False if it does not exist; a worker that runs it right now cannot complete it."""
    return bool(tx.execute(f"DELETE FROM queue WHERE {_JOB_WHERE}", (tenant, kind, key)))


def next_due(tx: Transaction, kinds: Collection[str], *, excluded: Collection[Claimant] = ()) -> datetime | None:
    """Return when the first unheld job is due; jobs of `excluded` claimants do not count."""
    if not kinds:
        return None
    exclusions = " AND NOT (tenant = ? AND kind = ?)" * len(excluded)
    row = tx.one(
        f"SELECT due_at FROM queue WHERE node IS NULL AND kind IN ({_placeholders(kinds)}){exclusions} "
        "ORDER BY due_at LIMIT 1",
        (*kinds, *(value for one in excluded for value in one)),
    )
    return None if row is None else datetime.fromisoformat(row["due_at"])


def find_due(tx: Transaction, tenant: str, kind: str, key: str) -> datetime | None:
    """Return when a job is due, or was due if it is held; None if it does not exist."""
    row = tx.one(f"SELECT due_at FROM queue WHERE {_JOB_WHERE}", (tenant, kind, key))
    return None if row is None else datetime.fromisoformat(row["due_at"])


def claim_due(
    tx: Transaction,
    run: NodeRun,
    kinds: Collection[str],
    *,
    now: datetime,
    slots: int,
    held: Mapping[Claimant, int] | None = None,
) -> list[Job]:
    """Claim due jobs, the oldest of each claimant, as many of each as its share of the slots.

    Args:
        tx: The unit of work.
        run: The run that claims them.
        kinds: The kinds of jobs to claim.
        now: Decides what is due.
        slots: How many jobs can run at once in all.
        held: How many slots each claimant has.

    Raises:
        HostError: `node.lost`, this run has lost its lease.
    """
    if not kinds:
        return []
    leases.require_lease(tx, run)
    held = held or {}
    claimants = tx.all(
        "SELECT tenant, kind, COUNT(*) AS waiting, MIN(due_at) AS oldest FROM queue "
        f"WHERE node IS NULL AND due_at <= ? AND kind IN ({_placeholders(kinds)}) "
        "GROUP BY tenant, kind ORDER BY oldest, tenant, kind LIMIT ?",
        (now.isoformat(), *kinds, slots + len(held)),
    )
    waiting = {Claimant(row["tenant"], row["kind"]): row["waiting"] for row in claimants}
    jobs: list[Job] = []
    for claimant, share in fair_shares(waiting, held, slots).items():
        rows = tx.all(
            "SELECT tenant, kind, key, payload, due_at, tries FROM queue WHERE tenant = ? AND kind = ? "
            "AND node IS NULL AND due_at <= ? ORDER BY due_at, key LIMIT ?",
            (*claimant, now.isoformat(), share),
        )
        jobs += [_claim_row(tx, run, row) for row in rows]
    return jobs


def claim_one(tx: Transaction, run: NodeRun, tenant: str, kind: str, key: str, *, now: datetime) -> Job | None:
    """Claim one job by name, if it is unheld and due, or was enqueued in the future (see `rebase_due_times`).

    Raises:
        HostError: `node.lost`, this run has lost its lease.
    """
    leases.require_lease(tx, run)
    row = tx.one(
        f"SELECT tenant, kind, key, payload, due_at, tries FROM queue WHERE {_JOB_WHERE} AND node IS NULL "
        "AND (due_at <= ? OR put_at > ?)",
        (tenant, kind, key, now.isoformat(), (now + _MAX_CLOCK_SKEW).isoformat()),
    )
    return None if row is None else _claim_row(tx, run, row)


def _claim_row(tx: Transaction, run: NodeRun, row: Row) -> Job:
    tries = row["tries"] + 1
    tx.execute(
        f"UPDATE queue SET node = ?, epoch = ?, tries = ? WHERE {_JOB_WHERE}",
        (*run, tries, row["tenant"], row["kind"], row["key"]),
    )
    return Job(
        tenant=Tenant(row["tenant"]),
        kind=row["kind"],
        key=row["key"],
        payload=orjson.loads(row["payload"]),
        due=datetime.fromisoformat(row["due_at"]),
        tries=tries,
        holder=run,
    )


def require_held(tx: Transaction, job: Job) -> None:
    """Require that the job is still held by its holder; for units of work done on its behalf.

    Raises:
        HostError: `queue.stale`, it is not.
    """
    _require_changed(len(tx.all(f"SELECT 1 AS found FROM queue WHERE {_HELD_JOB_WHERE}", job.holder_key)), job)


def complete(tx: Transaction, job: Job) -> None:
    """Delete a job that is done or given up.

    Raises:
        HostError: `queue.stale`, it is no longer held by its holder. The whole unit is rolled back.
    """
    _require_changed(tx.execute(f"DELETE FROM queue WHERE {_HELD_JOB_WHERE}", job.holder_key), job)


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
    changed = tx.execute(
        "UPDATE queue SET node = NULL, epoch = NULL, put_at = ?, due_at = ?, tries = ?, reason = ? "
        f"WHERE {_HELD_JOB_WHERE}",
        (now.isoformat(), due.isoformat(), tries, reason, *job.holder_key),
    )
    _require_changed(changed, job)


def release(tx: Transaction, job: Job) -> None:
    """Release the job as if it had not been claimed; harmless if another run holds it."""
    tx.execute(
        f"UPDATE queue SET node = NULL, epoch = NULL, tries = ? WHERE {_HELD_JOB_WHERE}",
        (job.tries - 1, *job.holder_key),
    )


def rebase_due_times(tx: Transaction, now: datetime) -> int:
    """Restart the waiting time of jobs enqueued in the future, after the wall clock was set back.

    Otherwise a job with a delay of a second would wait for as long as the clock was wrong. Returns how many jobs
    changed.
    """
    rows = tx.all(
        "SELECT tenant, kind, key, put_at, due_at FROM queue WHERE put_at > ?", ((now + _MAX_CLOCK_SKEW).isoformat(),)
    )
    for row in rows:
        wait = datetime.fromisoformat(row["due_at"]) - datetime.fromisoformat(row["put_at"])
        tx.execute(
            f"UPDATE queue SET put_at = ?, due_at = ? WHERE {_JOB_WHERE}",
            (now.isoformat(), (now + wait).isoformat(), row["tenant"], row["kind"], row["key"]),
        )
    return len(rows)


def release_held_by(tx: Transaction, run: NodeRun) -> int:
    """Release the jobs held by a run whose lease has ended; see `Node.subscribe`. Returns how many."""
    return tx.execute("UPDATE queue SET node = NULL, epoch = NULL WHERE node = ? AND epoch = ?", run)


def _require_changed(changed: int, job: Job) -> None:
    if not changed:
        raise HostError(
            f"{job.kind} {job.key} lost its lease: another worker holds this job",
            code="queue.stale",
            details={"kind": job.kind, "epoch": job.holder.epoch},
        )


def _placeholders(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))
