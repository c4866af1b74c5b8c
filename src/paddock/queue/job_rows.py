"""The embedded engine: jobs as rows of the table `queue`, claimed by the daemon of the home and its commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count

from paddock.queue import leases
from paddock.queue.claimants import Claimant, fair_shares
from paddock.queue.job import Job, JobName, WaitingJob, job_from_row
from paddock.queue.leases import NodeRun
from paddock.store.transaction import Row, Transaction

_ROWS_PER_INSERT = 50  # per statement
# Jobs that were put in times to come by less than this are not noticed when the wall clock was set back.
_MAX_CLOCK_SKEW = timedelta(minutes=1)

# ruff: noqa: S608 - queries are built from our own names and placeholders only

_JOB_WHERE = "tenant = ? AND kind = ? AND key = ?"
_HELD_JOB_WHERE = f"{_JOB_WHERE} AND node = ? AND epoch = ? AND claim = ?"
_JOB_COLUMNS = "tenant, kind, key, payload, due_at, tries"
_claims = count(1)  # a number for each claim, which no other has under the same epoch: that is of this process alone


class JobRows:
    """Jobs as rows; see `JobStore`."""

    def put(self, tx: Transaction, jobs: Sequence[WaitingJob]) -> None:
        for start in range(0, len(jobs), _ROWS_PER_INSERT):
            batch = jobs[start : start + _ROWS_PER_INSERT]
            rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * len(batch))
            tx.execute(
                f"INSERT INTO queue (tenant, kind, key, payload, put_at, due_at, tries, reason) VALUES {rows}",
                [
                    value
                    for job in batch
                    for value in (
                        *job.name, job.payload, job.put_at.isoformat(), job.due.isoformat(), job.tries, job.reason
                    )
                ],
            )  # fmt: skip

    def expedite(self, tx: Transaction, name: JobName, now: datetime) -> bool:
        return bool(
            tx.execute(f"UPDATE queue SET due_at = ? WHERE {_JOB_WHERE} AND node IS NULL", (now.isoformat(), *name))
        )

    def remove(self, tx: Transaction, name: JobName) -> bool:
        return bool(tx.execute(f"DELETE FROM queue WHERE {_JOB_WHERE}", name))

    def claim(self, tx: Transaction, name: JobName, run: NodeRun, now: datetime) -> Job | None:
        """Claim a job by name. One that was enqueued in the future counts as due; see `rebase_due_times`."""
        row = tx.one(
            f"SELECT {_JOB_COLUMNS} FROM queue WHERE {_JOB_WHERE} AND node IS NULL AND (due_at <= ? OR put_at > ?)",
            (*name, now.isoformat(), (now + _MAX_CLOCK_SKEW).isoformat()),
        )
        return None if row is None else _claim_row(tx, run, row)

    def lock_held(self, tx: Transaction, job: Job) -> bool:
        return bool(tx.all(f"SELECT 1 AS found FROM queue WHERE {_HELD_JOB_WHERE}", _held_values(job)))

    def complete(self, tx: Transaction, job: Job) -> bool:
        return bool(tx.execute(f"DELETE FROM queue WHERE {_HELD_JOB_WHERE}", _held_values(job)))

    def replace(self, tx: Transaction, job: Job, after: WaitingJob) -> bool:
        changed = tx.execute(
            "UPDATE queue SET node = NULL, epoch = NULL, put_at = ?, due_at = ?, tries = ?, reason = ? "
            f"WHERE {_HELD_JOB_WHERE}",
            (
                after.put_at.isoformat(), after.due.isoformat(), after.tries, after.reason,
                *_held_values(job),
            ),
        )  # fmt: skip
        return bool(changed)

    def release_held_by(self, tx: Transaction, run: NodeRun) -> int:
        return tx.execute("UPDATE queue SET node = NULL, epoch = NULL WHERE node = ? AND epoch = ?", run)


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
            f"SELECT {_JOB_COLUMNS} FROM queue WHERE tenant = ? AND kind = ? "
            "AND node IS NULL AND due_at <= ? ORDER BY due_at, key LIMIT ?",
            (*claimant, now.isoformat(), share),
        )
        jobs += [_claim_row(tx, run, row) for row in rows]
    return jobs


def _claim_row(tx: Transaction, run: NodeRun, row: Row) -> Job:
    claimed = row | {"tries": row["tries"] + 1, "claim": next(_claims)}
    tx.execute(
        f"UPDATE queue SET node = ?, epoch = ?, claim = ?, tries = ? WHERE {_JOB_WHERE}",
        (*run, claimed["claim"], claimed["tries"], row["tenant"], row["kind"], row["key"]),
    )
    return job_from_row(claimed, run)


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


def _held_values(job: Job) -> tuple[str | int, ...]:
    return (*job.name, *job.holder, job.claim)


def _placeholders(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))
