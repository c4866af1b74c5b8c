"""The worker's loop on PostgreSQL: procrastinate's worker, which is woken by notifications and runs jobs side by side.

Imported only where PostgreSQL is used: the engine takes a while to import.

Three of its decisions are ours, made where its job manager speaks to the database:

* Which job is next: tenants and kinds get fair shares of the slots, and many jobs are fetched at once.
* Who fetches: the run of this node. It is registered with the engine once, and sends one heartbeat for all its workers;
  one that others took for dead is refused, since the engine knows it no more.
* When a job is finished: in a unit of work that is fenced by its holder. The engine's own end of a job does nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from procrastinate import App, JobContext, PsycopgConnector
from procrastinate import jobs as engine
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.queue import worker
from paddock.queue.claimants import Claimant, fair_shares
from paddock.queue.engine_jobs import queue_name
from paddock.queue.job import Job, job_from_row
from paddock.queue.leases import NodeRun
from paddock.store.postgres import CONNECTION_SETTINGS

if TYPE_CHECKING:
    from paddock.store.postgres_pool import PostgresPool

_MAX_CONNECTIONS = 4
_CONNECT_TIMEOUT_S = 2.0
_NOTICE: engine.Notification = {"type": "job_inserted", "job_id": 0}

logging.getLogger("procrastinate").setLevel(logging.WARNING)  # it has something to say of every job
_log = logging.getLogger("paddock.queue")

# Who waits: of each queue its first job, by an index of ours, with one step for each queue; and how many of it are due,
# as far as there are slots for them. Each fetch that finds nothing would cost as much as one that does.
_WAITING = """
WITH RECURSIVE first AS (
    (SELECT queue_name, COALESCE(scheduled_at, '-infinity'::timestamptz) AS due, id, task_name,
            args ->> 'tenant' AS tenant
     FROM procrastinate_jobs WHERE status = 'todo'
     ORDER BY queue_name, COALESCE(scheduled_at, '-infinity'::timestamptz), id LIMIT 1)
    UNION ALL
    SELECT later.* FROM first, LATERAL (
        SELECT queue_name, COALESCE(scheduled_at, '-infinity'::timestamptz), id, task_name, args ->> 'tenant'
        FROM procrastinate_jobs WHERE status = 'todo' AND procrastinate_jobs.queue_name > first.queue_name
        ORDER BY queue_name, COALESCE(scheduled_at, '-infinity'::timestamptz), id LIMIT 1) AS later
)
SELECT tenant, task_name AS kind,
       CASE WHEN due > now() THEN extract(epoch FROM due - now())::float ELSE 0 END AS wait_s, (
    SELECT count(*) FROM (
        SELECT 1 FROM procrastinate_jobs AS jobs WHERE status = 'todo' AND jobs.queue_name = first.queue_name
               AND COALESCE(scheduled_at, '-infinity'::timestamptz) <= now() LIMIT %(slots)s) AS counted) AS due_count
FROM first WHERE task_name = ANY(%(kinds)s) AND tenant IS NOT NULL ORDER BY id
"""
_FETCH = """
SELECT (job).id, (job).queue_name, (job).task_name, (job).args, (job).attempts
FROM (SELECT procrastinate_fetch_job_v2(ARRAY[name]::varchar[], %(worker_id)s) AS job
      FROM unnest(%(names)s::varchar[]) AS name OFFSET 0) AS fetched
WHERE (job).id IS NOT NULL
"""
# Jobs that were fetched for this worker, but the connection broke before it heard of them; and those that it finished,
# but the server crashed and forgot that.
_GIVE_BACK = """
SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM procrastinate_jobs
WHERE status = 'doing' AND worker_id = %(worker_id)s AND task_name = ANY(%(kinds)s)
      AND (id, attempts) NOT IN (SELECT * FROM unnest(%(ids)s::bigint[], %(attempts)s::integer[]))
"""
_FINISH = """
SELECT procrastinate_finish_job_v1(held.id, 'succeeded', TRUE)
FROM (SELECT jobs.id
      FROM unnest(%(ids)s::bigint[], %(attempts)s::integer[], %(worker_ids)s::bigint[])
           AS ended (id, attempts, worker_id)
      JOIN procrastinate_jobs AS jobs USING (id, attempts, worker_id)
      WHERE jobs.status = 'doing' FOR UPDATE OF jobs) AS held
"""


class Fetch(NamedTuple):
    """One fetch of a job. A job that was released and is fetched again has the same id, and one more attempt."""

    id: int
    attempts: int


async def run_engine_worker(work: worker.Worker) -> None:
    """Run due jobs until cancelled; then let them finish for a moment, and release the rest for other workers."""
    url = cast("PostgresPool", work.database).url
    settings = dict(CONNECTION_SETTINGS)
    pool = AsyncConnectionPool(
        url,
        kwargs=settings,
        configure=_commit_each_statement,
        max_size=_MAX_CONNECTIONS,
        min_size=1,
        timeout=_CONNECT_TIMEOUT_S,
        open=False,
    )
    async with pool:

        async def on_listening(_connection: object) -> None:
            jobs.on_listening()

        connector = PsycopgConnector(configure=on_listening)  # for the connection that listens; the others are ours
        jobs = _FairJobManager(connector, work)
        app = _JobApp(connector, jobs, work.kinds)
        async with app.open_async(pool):
            running = asyncio.create_task(
                app.run_worker_async(
                    name="paddock",
                    concurrency=work.max_jobs,
                    install_signal_handlers=False,
                    fetch_job_polling_interval=worker.POLL_INTERVAL_S,
                    shutdown_graceful_timeout=worker.DRAIN_TIMEOUT_S,
                )
            )
            try:
                await asyncio.shield(running)
            finally:
                jobs.stop_fetching()  # first: the engine's worker waits for a fetch, however long that takes
                running.cancel()
                await asyncio.wait([running])
                await work.release_unfinished(jobs.unfinished())


async def _commit_each_statement(connection: AsyncConnection[Any]) -> None:
    await connection.set_autocommit(True)
    # What is committed here may be lost with the server: then a job is fetched or run again, as after a kill.
    await connection.execute("SET synchronous_commit = off")


class _JobApp(App):
    """The engine, with our job manager, and a task for each kind of job."""

    def __init__(self, connector: PsycopgConnector, jobs: _FairJobManager, kinds: Iterable[str]) -> None:
        super().__init__(connector=connector)  # pyright: ignore[reportUnknownMemberType]
        self.job_manager = jobs

        async def run(context: JobContext, **_facts: Any) -> None:
            assert context.job.id is not None
            await jobs.run_job(Fetch(context.job.id, context.job.attempts))

        for kind in kinds:
            self.task(name=kind, pass_context=True)(run)


class _FairJobManager(JobManager):
    """Fetches jobs for one worker of ours, and runs them.

    Args:
        connector: The engine's connections.
        work: Our worker.
    """

    def __init__(self, connector: PsycopgConnector, work: worker.Worker) -> None:
        super().__init__(connector)
        self._worker = work
        self._fetched: deque[engine.Job] = deque()
        self._jobs: dict[Fetch, Job] = {}  # fetched and not over
        self._ended: dict[Fetch, int] = {}  # to be finished, with the worker's id
        self._finishing = asyncio.Lock()
        self._broken_off: list[Job] = []
        self._more_are_due = False
        self._has_news = False
        self._lost_answer = False  # whether what was fetched or finished may not be so
        self._is_listening = False
        self._fetching: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._last_warning = ""
        self._timer: asyncio.TimerHandle | None = None

    # --- what the engine's worker asks for -----------------------------------------------------------------------

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> engine.Job | None:  # noqa: ARG002
        """Give the next job to run now, if there is one."""
        while not self._fetched:
            if self._is_stopping:
                return None
            self._has_news = False
            self._fetching = asyncio.create_task(self._fetch_due(), name="fetch due jobs")
            try:
                await asyncio.wait([self._fetching])
                if self._fetching.cancelled():
                    return None
                self._fetching.result()
            except (ConnectorException, PaddockError) as error:
                self._lost_answer = True
                self._warn(str(error.__cause__ or error))
                return None
            if not self._fetched and not self._has_news:  # the engine forgets news that came while it was fetching
                return None
        return self._fetched.popleft()

    def stop_fetching(self) -> None:
        """Break off the fetch that is under way, and begin no other. What it fetched is released with the lease."""
        self._is_stopping = True
        if self._fetching is not None:
            self._fetching.cancel()

    def on_listening(self) -> None:
        """Look for lost jobs if the connection that listens broke: the server may have crashed, and forgotten what it
        had answered.
        """
        if self._is_listening:
            self._lost_answer = True
            self._worker.wake()
        self._is_listening = True

    async def listen_for_jobs(self, *, on_notification: Any, queues: Iterable[str] | None = None) -> None:
        """Wake the engine's worker when jobs were put anywhere, or ours is woken."""

        async def pass_on(*, channel: str, notification: engine.Notification) -> None:
            self._has_news = True
            await on_notification(channel=channel, notification=notification)

        async def listen() -> None:
            while True:
                with suppress(ConnectorException):
                    await super(_FairJobManager, self).listen_for_jobs(on_notification=pass_on, queues=queues)
                await asyncio.sleep(worker.POLL_INTERVAL_S)  # the database is away
                self._worker.wake()

        async def pass_on_wakes() -> None:
            while True:
                await self._worker.woken.wait()
                self._worker.woken.clear()
                await pass_on(channel="", notification=_NOTICE)

        await asyncio.gather(listen(), pass_on_wakes())

    async def finish_job(self, job: engine.Job, status: engine.Status, delete_job: bool) -> None:
        """Do nothing: what became of a job is recorded by `run_job`, fenced, or it is released."""

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:  # noqa: ARG002
        return ()  # one that is removed runs to its end, and can record nothing

    async def register_worker(self) -> int:
        return 0  # the node is registered, and renews its lease for all its workers: see `fetch_job`

    async def unregister_worker(self, worker_id: int) -> None:  # noqa: ARG002
        if self._timer is not None:
            self._timer.cancel()

    async def update_heartbeat(self, worker_id: int) -> None: ...

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:  # noqa: ARG002
        return []  # nodes do, in the unit of work that releases what the dead held

    # --- jobs ----------------------------------------------------------------------------------------------------

    async def run_job(self, fetch: Fetch) -> None:
        """Run a fetched job. One that is broken off stays among the unfinished."""
        job = self._jobs[fetch]
        try:
            await self._worker.run_job(job, lambda job: self._complete(fetch, job.holder))
        except asyncio.CancelledError:
            self._broken_off.append(job)
            raise
        finally:
            self._jobs.pop(fetch, None)
        if self._more_are_due:
            self._worker.wake()

    def unfinished(self) -> list[Job]:
        """The jobs that were broken off, or fetched and not begun."""
        return [*self._broken_off, *self._jobs.values()]

    async def _complete(self, fetch: Fetch, holder: NodeRun) -> None:
        """Finish a job that needs no unit of work; nothing happens if it is over, or held by another by now.

        Jobs that end while a statement is under way are finished together by the next one.
        """
        self._ended[fetch] = holder.epoch
        async with self._finishing:
            if fetch not in self._ended:
                return  # finished with another
            ended, self._ended = self._ended, {}
            try:
                await self.connector.execute_query_async(_FINISH, **_columns(ended), worker_ids=list(ended.values()))
            except BaseException as error:
                del ended[fetch]
                self._ended |= ended  # each of the others tries for itself
                if isinstance(error, ConnectorException):
                    self._lost_answer = True
                    raise StoreUnavailable(f"the job could not be finished: {error.__cause__ or error}") from error
                raise

    async def _fetch_due(self) -> None:
        """Fetch due jobs, as many of each tenant and kind as its share of the slots."""
        run = await self._worker.node.current_run()  # first: this releases jobs of a former run of this home
        kinds = list(self._worker.kinds)
        if self._lost_answer:
            self._lost_answer = False  # first: what is lost from now on counts again
            try:
                await self.connector.execute_query_async(
                    _GIVE_BACK, worker_id=run.epoch, kinds=kinds, **_columns(self._jobs)
                )
            except BaseException:
                self._lost_answer = True
                raise
        rows = await self.connector.execute_query_all_async(_WAITING, kinds=kinds, slots=self._worker.max_jobs)
        self._last_warning = ""
        due = {Claimant(row["tenant"], row["kind"]): row["due_count"] for row in rows if row["due_count"]}
        self._more_are_due = bool(due)
        self._wake_in(min((row["wait_s"] for row in rows if not row["due_count"]), default=None))
        slots, held = self._worker.max_jobs, Counter(job.claimant for job in self._jobs.values())
        shares = fair_shares(due, held, slots)
        names = [queue_name(claimant) for claimant, share in shares.items() for _ in range(share)]
        if not names:
            return
        for row in await self.connector.execute_query_all_async(_FETCH, names=names, worker_id=run.epoch):
            fetch, facts = Fetch(row["id"], row["attempts"]), cast("dict[str, Any]", row["args"])
            try:
                tries = facts["tries"] + row["attempts"] + 1
                self._jobs[fetch] = job_from_row(
                    facts | {"kind": row["task_name"], "tries": tries, "claim": fetch.id}, run
                )
            except (KeyError, TypeError, ValueError):
                _log.exception("job %d cannot be understood, and stays held", fetch.id)
                continue
            self._fetched.append(
                engine.Job(
                    id=fetch.id,
                    attempts=fetch.attempts,
                    queue=row["queue_name"],
                    lock=None,
                    queueing_lock=None,
                    task_name=row["task_name"],
                    task_kwargs=facts,
                )
            )

    def _wake_in(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None and seconds < worker.POLL_INTERVAL_S:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._worker.wake)

    def _warn(self, reason: str) -> None:
        if reason != self._last_warning:  # not again and again while the database is away
            _log.warning("the queue could not be looked at: %s", reason)
        self._last_warning = reason


def _columns(fetches: Iterable[Fetch]) -> dict[str, list[int]]:
    return {"ids": [one.id for one in fetches], "attempts": [one.attempts for one in fetches]}
