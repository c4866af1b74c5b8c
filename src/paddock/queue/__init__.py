"""Durable and timed jobs, the workers that run them, and the leases of the nodes.

* The contract: `queue.py` (functions of a unit of work), `job.py` (what a job is), `worker.py` (handlers and retries),
  `lifespan.py` (which engine runs them).
* The embedded engine: `job_rows.py`, `row_worker.py`.
* procrastinate on PostgreSQL: `engine_jobs.py`, `engine_worker.py`.
* Pure decisions of both: `schedule.py` (retries), `claimants.py` (fair shares).
* Node liveness: `node.py`, with `leases.py` and, within one home, `run_locks.py`.
"""
