"""What a job is, and what the two engines that store jobs have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import orjson
from msgspec import Struct

from paddock.core.ids import Tenant
from paddock.queue.claimants import Claimant
from paddock.queue.leases import NodeRun
from paddock.store.transaction import Transaction


class JobName(NamedTuple):
    """What identifies a job. At most one job of a name waits or runs."""

    tenant: str
    kind: str
    key: str


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
        claim: Tells this claim from others of the same holder, together with `tries`.
    """

    tenant: Tenant
    kind: str
    key: str
    payload: Mapping[str, Any]
    due: datetime
    tries: int
    holder: NodeRun
    claim: int

    @property
    def name(self) -> JobName:
        return JobName(self.tenant, self.kind, self.key)

    @property
    def claimant(self) -> Claimant:
        return Claimant(self.tenant, self.kind)


def job_from_row(row: Mapping[str, Any], holder: NodeRun) -> Job:
    """The job in a row of `queue`, as claimed by this run; `tries` counts this time."""
    return Job(
        tenant=Tenant(row["tenant"]),
        kind=row["kind"],
        key=row["key"],
        payload=orjson.loads(row["payload"]),
        due=datetime.fromisoformat(row["due_at"]),
        tries=row["tries"],
        holder=holder,
        claim=row["claim"],
    )


class WaitingJob(NamedTuple):
    """A job that waits until it is due.

    How long it waits counts from when it is stored: `due - put_at`. The two times are those of the host that put it.
    """

    name: JobName
    payload: str  # JSON
    put_at: datetime
    due: datetime
    tries: int = 0
    reason: str | None = None

    @property
    def wait_s(self) -> float:
        return max((self.due - self.put_at).total_seconds(), 0.0)


class JobStore(Protocol):
    """How an engine stores jobs: functions of a unit of work. What they read of each other's jobs is in `queue`.

    The table `queue` of the embedded engine, and a view of that name on PostgreSQL, have the same columns.
    """

    def put(self, tx: Transaction, jobs: Sequence[WaitingJob]) -> None:
        """Store jobs whose names are free."""
        ...

    def expedite(self, tx: Transaction, name: JobName, now: datetime) -> bool:
        """Make a waiting job due now; False if it does not wait."""
        ...

    def remove(self, tx: Transaction, name: JobName) -> bool:
        """Remove a job, waiting or running; False if it does not exist."""
        ...

    def claim(self, tx: Transaction, name: JobName, run: NodeRun, now: datetime) -> Job | None:
        """Claim a job by name, if it waits and is due. The caller has checked the lease of the run."""
        ...

    def lock_held(self, tx: Transaction, job: Job) -> bool:
        """Whether the job is still held by this claim of its holder, which it remains until the end of the unit."""
        ...

    def complete(self, tx: Transaction, job: Job) -> bool:
        """Delete the job; False if it is no longer held by this claim of its holder."""
        ...

    def replace(self, tx: Transaction, job: Job, after: WaitingJob) -> bool:
        """Have the job wait again; False if it is no longer held by this claim of its holder."""
        ...

    def release_held_by(self, tx: Transaction, run: NodeRun) -> int:
        """Have the jobs of an ended run wait, due now. The try counts. Returns how many."""
        ...
