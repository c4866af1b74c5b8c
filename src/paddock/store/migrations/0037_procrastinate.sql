-- Durable work on PostgreSQL moves onto procrastinate. Its own schema is created first, as its package brings it (see
-- migrate.py); here are the jobs that wait, and the view `queue`, so that both engines can be asked in the same words.

-- Ours: one job of a name, waiting or running, compared as the columns of other tables are, so that joins use the
-- index; and who waits for what since when, for fair fetching.
{if_postgresql} CREATE UNIQUE INDEX paddock_job_names ON procrastinate_jobs (((args ->> 'tenant') COLLATE "C"), (task_name::text COLLATE "C"), ((args ->> 'key') COLLATE "C")) WHERE status IN ('todo', 'doing');
{if_postgresql} CREATE INDEX paddock_jobs_waiting ON procrastinate_jobs (queue_name, (COALESCE(scheduled_at, '-infinity'::timestamptz)), id) WHERE status = 'todo';

-- One by one: a value, as an array of all jobs would be, has at most a gigabyte. The name of a queue is a kind and a
-- tenant, as queue/engine_jobs.py makes it.
{if_postgresql} SELECT count(procrastinate_defer_jobs_v1(ARRAY[ROW(
{if_postgresql}     left(encode(sha256(convert_to(kind, 'UTF8')), 'hex'), 12) || '.' || left(encode(sha256(convert_to(tenant, 'UTF8')), 'hex'), 16),
{if_postgresql}     kind, 0, NULL, NULL,
{if_postgresql}     jsonb_build_object('tenant', tenant, 'key', key, 'payload', payload, 'put_at', put_at, 'due_at', due_at, 'tries', tries, 'reason', reason),
{if_postgresql}     due_at::timestamptz)::procrastinate_job_to_defer_v1])) FROM (SELECT * FROM queue ORDER BY due_at) AS waiting;
{if_postgresql} DROP TABLE queue;

-- The epoch of a run is the id under which it is registered with the engine: higher than all that were given out.
{if_postgresql} SELECT setval(pg_get_serial_sequence('procrastinate_workers', 'id'), (SELECT COALESCE(MAX(epoch), 0) + 1 FROM nodes));
{if_postgresql} DROP TABLE nodes;

{if_postgresql} CREATE VIEW queue AS SELECT
{if_postgresql}     (args ->> 'tenant') COLLATE "C" AS tenant, task_name::text COLLATE "C" AS kind, (args ->> 'key') COLLATE "C" AS key,
{if_postgresql}     args ->> 'payload' AS payload,
{if_postgresql}     args ->> 'put_at' AS put_at, args ->> 'due_at' AS due_at,
{if_postgresql}     (args ->> 'tries')::bigint + attempts + (status = 'doing')::int AS tries, args ->> 'reason' AS reason,
{if_postgresql}     CASE WHEN status = 'doing' THEN (SELECT node FROM node_leases WHERE epoch = worker_id) END AS node,
{if_postgresql}     CASE WHEN status = 'doing' THEN worker_id END AS epoch,
{if_postgresql}     CASE WHEN status = 'doing' THEN id END AS claim
{if_postgresql} FROM procrastinate_jobs WHERE status IN ('todo', 'doing');

-- A run may claim a job of the same name twice; what it does for the first claim must not count for the second.
{if_sqlite} ALTER TABLE queue ADD COLUMN claim {bigint};

-- Who is dead is no longer counted in beats of ours: the engine does on PostgreSQL, and the kernel within one home.
ALTER TABLE node_leases DROP COLUMN beat;

-- Until statistics exist, the planner expects few jobs, and the engine's fetch reads all of them.
{if_postgresql} ANALYZE procrastinate_jobs;
