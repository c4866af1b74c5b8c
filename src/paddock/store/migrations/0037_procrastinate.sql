-- Durable work on PostgreSQL moves onto procrastinate: its schema of version 3.10 as it is shipped, the jobs that wait, and
-- the view `queue`, so that both engines can be asked in the same words. A later schema comes as a later migration.

{if_postgresql} -- Enums

{if_postgresql} CREATE TYPE procrastinate_job_status AS ENUM (
{if_postgresql}     'todo',  -- The job is queued
{if_postgresql}     'doing',  -- The job has been fetched by a worker
{if_postgresql}     'succeeded',  -- The job ended successfully
{if_postgresql}     'failed',  -- The job ended with an error
{if_postgresql}     'cancelled', -- The job was cancelled
{if_postgresql}     'aborting',  -- legacy, not used anymore since v3.0.0
{if_postgresql}     'aborted'  -- The job was aborted
{if_postgresql} );

{if_postgresql} CREATE TYPE procrastinate_job_event_type AS ENUM (
{if_postgresql}     'deferred',  -- Job created, in todo
{if_postgresql}     'started',  -- todo -> doing
{if_postgresql}     'deferred_for_retry',  -- doing -> todo
{if_postgresql}     'failed',  -- doing -> failed
{if_postgresql}     'succeeded',  -- doing -> succeeded
{if_postgresql}     'cancelled', -- todo -> cancelled
{if_postgresql}     'abort_requested', -- not a state transition, but set in a separate field
{if_postgresql}     'aborted', -- doing -> aborted (only allowed when abort_requested field is set)
{if_postgresql}     'scheduled', -- not a state transition, but recording when a task is scheduled for
{if_postgresql}     'retried' -- Manually retried failed job
{if_postgresql} );

{if_postgresql} -- Composite Types

{if_postgresql} CREATE TYPE procrastinate_job_to_defer_v1 AS (
{if_postgresql}     queue_name character varying,
{if_postgresql}     task_name character varying,
{if_postgresql}     priority integer,
{if_postgresql}     lock text,
{if_postgresql}     queueing_lock text,
{if_postgresql}     args jsonb,
{if_postgresql}     scheduled_at timestamp with time zone
{if_postgresql} );

{if_postgresql} -- Tables

{if_postgresql} CREATE TABLE procrastinate_workers(
{if_postgresql}     id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
{if_postgresql}     last_heartbeat timestamp with time zone NOT NULL DEFAULT NOW()
{if_postgresql} );

{if_postgresql} CREATE TABLE procrastinate_jobs (
{if_postgresql}     id bigserial PRIMARY KEY,
{if_postgresql}     queue_name character varying(128) NOT NULL,
{if_postgresql}     task_name character varying(128) NOT NULL,
{if_postgresql}     priority integer DEFAULT 0 NOT NULL,
{if_postgresql}     lock text,
{if_postgresql}     queueing_lock text,
{if_postgresql}     args jsonb DEFAULT '{}' NOT NULL,
{if_postgresql}     status procrastinate_job_status DEFAULT 'todo'::procrastinate_job_status NOT NULL,
{if_postgresql}     scheduled_at timestamp with time zone NULL,
{if_postgresql}     attempts integer DEFAULT 0 NOT NULL,
{if_postgresql}     abort_requested boolean DEFAULT false NOT NULL,
{if_postgresql}     worker_id bigint REFERENCES procrastinate_workers(id) ON DELETE SET NULL,
{if_postgresql}     CONSTRAINT check_not_todo_abort_requested CHECK (NOT (status = 'todo' AND abort_requested = true))
{if_postgresql} );

{if_postgresql} CREATE TABLE procrastinate_periodic_defers (
{if_postgresql}     id bigserial PRIMARY KEY,
{if_postgresql}     task_name character varying(128) NOT NULL,
{if_postgresql}     defer_timestamp bigint,
{if_postgresql}     job_id bigint REFERENCES procrastinate_jobs(id) NULL,
{if_postgresql}     periodic_id character varying(128) NOT NULL DEFAULT '',
{if_postgresql}     CONSTRAINT procrastinate_periodic_defers_unique UNIQUE (task_name, periodic_id, defer_timestamp)
{if_postgresql} );

{if_postgresql} CREATE TABLE procrastinate_events (
{if_postgresql}     id bigserial PRIMARY KEY,
{if_postgresql}     job_id bigint NOT NULL REFERENCES procrastinate_jobs ON DELETE CASCADE,
{if_postgresql}     type procrastinate_job_event_type,
{if_postgresql}     at timestamp with time zone DEFAULT NOW() NULL
{if_postgresql} );

{if_postgresql} -- Constraints & Indices

{if_postgresql} -- this prevents from having several jobs with the same queueing lock in the "todo" state
{if_postgresql} CREATE UNIQUE INDEX procrastinate_jobs_queueing_lock_idx_v1 ON procrastinate_jobs (queueing_lock) WHERE status = 'todo';
{if_postgresql} -- this prevents from having several jobs with the same lock in the "doing" state
{if_postgresql} CREATE UNIQUE INDEX procrastinate_jobs_lock_idx_v1 ON procrastinate_jobs (lock) WHERE status = 'doing';

{if_postgresql} -- Index for select_stalled_jobs_by_heartbeat query
{if_postgresql} CREATE INDEX idx_procrastinate_jobs_worker_not_null ON procrastinate_jobs(worker_id) WHERE worker_id IS NOT NULL AND status = 'doing'::procrastinate_job_status;

{if_postgresql} CREATE INDEX procrastinate_jobs_queue_name_idx_v1 ON procrastinate_jobs(queue_name);
{if_postgresql} CREATE INDEX procrastinate_jobs_id_lock_idx_v1 ON procrastinate_jobs (id, lock) WHERE status = ANY (ARRAY['todo'::procrastinate_job_status, 'doing'::procrastinate_job_status]);
{if_postgresql} CREATE INDEX procrastinate_jobs_priority_idx_v1 ON procrastinate_jobs(priority desc, id asc) WHERE (status = 'todo'::procrastinate_job_status);

{if_postgresql} CREATE INDEX procrastinate_events_job_id_fkey_v1 ON procrastinate_events(job_id);

{if_postgresql} CREATE INDEX procrastinate_periodic_defers_job_id_fkey_v1 ON procrastinate_periodic_defers(job_id);

{if_postgresql} CREATE INDEX idx_procrastinate_workers_last_heartbeat ON procrastinate_workers(last_heartbeat);

{if_postgresql} -- Functions
{if_postgresql} CREATE FUNCTION procrastinate_defer_jobs_v1(
{if_postgresql}     jobs procrastinate_job_to_defer_v1[]
{if_postgresql} )
{if_postgresql}     RETURNS bigint[]
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} DECLARE
{if_postgresql}     job_ids bigint[];
{if_postgresql} BEGIN
{if_postgresql}     WITH inserted_jobs AS (
{if_postgresql}         INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
{if_postgresql}         SELECT (job).queue_name,
{if_postgresql}                (job).task_name,
{if_postgresql}                (job).priority,
{if_postgresql}                (job).lock,
{if_postgresql}                (job).queueing_lock,
{if_postgresql}                (job).args,
{if_postgresql}                (job).scheduled_at
{if_postgresql}         FROM unnest(jobs) AS job
{if_postgresql}         RETURNING id
{if_postgresql}     )
{if_postgresql}     SELECT array_agg(id) FROM inserted_jobs INTO job_ids;

{if_postgresql}     RETURN job_ids;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_defer_periodic_job_v2(
{if_postgresql}     _queue_name character varying,
{if_postgresql}     _lock character varying,
{if_postgresql}     _queueing_lock character varying,
{if_postgresql}     _task_name character varying,
{if_postgresql}     _priority integer,
{if_postgresql}     _periodic_id character varying,
{if_postgresql}     _defer_timestamp bigint,
{if_postgresql}     _args jsonb
{if_postgresql} )
{if_postgresql}     RETURNS bigint
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} DECLARE
{if_postgresql}     _job_id bigint;
{if_postgresql}     _defer_id bigint;
{if_postgresql} BEGIN
{if_postgresql}     INSERT
{if_postgresql}         INTO procrastinate_periodic_defers (task_name, periodic_id, defer_timestamp)
{if_postgresql}         VALUES (_task_name, _periodic_id, _defer_timestamp)
{if_postgresql}         ON CONFLICT DO NOTHING
{if_postgresql}         RETURNING id into _defer_id;

{if_postgresql}     IF _defer_id IS NULL THEN
{if_postgresql}         RETURN NULL;
{if_postgresql}     END IF;

{if_postgresql}     UPDATE procrastinate_periodic_defers
{if_postgresql}         SET job_id = (
{if_postgresql}             SELECT COALESCE((
{if_postgresql}                 SELECT unnest(procrastinate_defer_jobs_v1(
{if_postgresql}                     ARRAY[
{if_postgresql}                         ROW(
{if_postgresql}                             _queue_name,
{if_postgresql}                             _task_name,
{if_postgresql}                             _priority,
{if_postgresql}                             _lock,
{if_postgresql}                             _queueing_lock,
{if_postgresql}                             _args,
{if_postgresql}                             NULL::timestamptz
{if_postgresql}                         )
{if_postgresql}                     ]::procrastinate_job_to_defer_v1[]
{if_postgresql}                 ))
{if_postgresql}             ), NULL)
{if_postgresql}         )
{if_postgresql}         WHERE id = _defer_id
{if_postgresql}         RETURNING job_id INTO _job_id;

{if_postgresql}     DELETE
{if_postgresql}         FROM procrastinate_periodic_defers
{if_postgresql}         USING (
{if_postgresql}             SELECT id
{if_postgresql}             FROM procrastinate_periodic_defers
{if_postgresql}             WHERE procrastinate_periodic_defers.task_name = _task_name
{if_postgresql}             AND procrastinate_periodic_defers.periodic_id = _periodic_id
{if_postgresql}             AND procrastinate_periodic_defers.defer_timestamp < _defer_timestamp
{if_postgresql}             ORDER BY id
{if_postgresql}             FOR UPDATE
{if_postgresql}         ) to_delete
{if_postgresql}         WHERE procrastinate_periodic_defers.id = to_delete.id;

{if_postgresql}     RETURN _job_id;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_fetch_job_v2(
{if_postgresql}     target_queue_names character varying[],
{if_postgresql}     p_worker_id bigint
{if_postgresql} )
{if_postgresql}     RETURNS procrastinate_jobs
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} DECLARE
{if_postgresql}     found_jobs procrastinate_jobs;
{if_postgresql} BEGIN
{if_postgresql}     WITH candidate AS (
{if_postgresql}         SELECT jobs.*
{if_postgresql}             FROM procrastinate_jobs AS jobs
{if_postgresql}             WHERE
{if_postgresql}                 -- reject the job if its lock has earlier or higher priority jobs
{if_postgresql}                 NOT EXISTS (
{if_postgresql}                     SELECT 1
{if_postgresql}                         FROM procrastinate_jobs AS other_jobs
{if_postgresql}                         WHERE
{if_postgresql}                             jobs.lock IS NOT NULL
{if_postgresql}                             AND other_jobs.lock = jobs.lock
{if_postgresql}                             AND (
{if_postgresql}                                 -- job with same lock is already running
{if_postgresql}                                 other_jobs.status = 'doing'
{if_postgresql}                                 OR
{if_postgresql}                                 -- job with same lock is waiting and has higher priority (or same priority but was queued first)
{if_postgresql}                                 (
{if_postgresql}                                     other_jobs.status = 'todo'
{if_postgresql}                                     AND (
{if_postgresql}                                         other_jobs.priority > jobs.priority
{if_postgresql}                                         OR (
{if_postgresql}                                         other_jobs.priority = jobs.priority
{if_postgresql}                                         AND other_jobs.id < jobs.id
{if_postgresql}                                         )
{if_postgresql}                                     )
{if_postgresql}                                 )
{if_postgresql}                             )
{if_postgresql}                 )
{if_postgresql}                 AND jobs.status = 'todo'
{if_postgresql}                 AND (target_queue_names IS NULL OR jobs.queue_name = ANY( target_queue_names ))
{if_postgresql}                 AND (jobs.scheduled_at IS NULL OR jobs.scheduled_at <= now())
{if_postgresql}             ORDER BY jobs.priority DESC, jobs.id ASC LIMIT 1
{if_postgresql}             FOR UPDATE OF jobs SKIP LOCKED
{if_postgresql}     )
{if_postgresql}     UPDATE procrastinate_jobs
{if_postgresql}         SET status = 'doing', worker_id = p_worker_id
{if_postgresql}         FROM candidate
{if_postgresql}         WHERE procrastinate_jobs.id = candidate.id
{if_postgresql}         RETURNING procrastinate_jobs.* INTO found_jobs;

{if_postgresql}  RETURN found_jobs;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_finish_job_v1(job_id bigint, end_status procrastinate_job_status, delete_job boolean)
{if_postgresql}     RETURNS void
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} DECLARE
{if_postgresql}     _job_id bigint;
{if_postgresql} BEGIN
{if_postgresql}     IF end_status NOT IN ('succeeded', 'failed', 'aborted') THEN
{if_postgresql}         RAISE 'End status should be either "succeeded", "failed" or "aborted" (job id: %)', job_id;
{if_postgresql}     END IF;
{if_postgresql}     IF delete_job THEN
{if_postgresql}         DELETE FROM procrastinate_jobs
{if_postgresql}         WHERE id = job_id AND status IN ('todo', 'doing')
{if_postgresql}         RETURNING id INTO _job_id;
{if_postgresql}     ELSE
{if_postgresql}         UPDATE procrastinate_jobs
{if_postgresql}         SET status = end_status,
{if_postgresql}             abort_requested = false,
{if_postgresql}             attempts = CASE status
{if_postgresql}                 WHEN 'doing' THEN attempts + 1 ELSE attempts
{if_postgresql}             END
{if_postgresql}         WHERE id = job_id AND status IN ('todo', 'doing')
{if_postgresql}         RETURNING id INTO _job_id;
{if_postgresql}     END IF;
{if_postgresql}     IF _job_id IS NULL THEN
{if_postgresql}         RAISE 'Job was not found or not in "doing" or "todo" status (job id: %)', job_id;
{if_postgresql}     END IF;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_cancel_job_v1(job_id bigint, abort boolean, delete_job boolean)
{if_postgresql}     RETURNS bigint
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} DECLARE
{if_postgresql}     _job_id bigint;
{if_postgresql} BEGIN
{if_postgresql}     IF delete_job THEN
{if_postgresql}         DELETE FROM procrastinate_jobs
{if_postgresql}         WHERE id = job_id AND status = 'todo'
{if_postgresql}         RETURNING id INTO _job_id;
{if_postgresql}     END IF;
{if_postgresql}     IF _job_id IS NULL THEN
{if_postgresql}         IF abort THEN
{if_postgresql}             UPDATE procrastinate_jobs
{if_postgresql}             SET abort_requested = true,
{if_postgresql}                 status = CASE status
{if_postgresql}                     WHEN 'todo' THEN 'cancelled'::procrastinate_job_status ELSE status
{if_postgresql}                 END
{if_postgresql}             WHERE id = job_id AND status IN ('todo', 'doing')
{if_postgresql}             RETURNING id INTO _job_id;
{if_postgresql}         ELSE
{if_postgresql}             UPDATE procrastinate_jobs
{if_postgresql}             SET status = 'cancelled'::procrastinate_job_status
{if_postgresql}             WHERE id = job_id AND status = 'todo'
{if_postgresql}             RETURNING id INTO _job_id;
{if_postgresql}         END IF;
{if_postgresql}     END IF;
{if_postgresql}     RETURN _job_id;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_retry_job_v1(
{if_postgresql}     job_id bigint,
{if_postgresql}     retry_at timestamp with time zone,
{if_postgresql}     new_priority integer,
{if_postgresql}     new_queue_name character varying,
{if_postgresql}     new_lock character varying
{if_postgresql} ) RETURNS void LANGUAGE plpgsql AS $$
{if_postgresql} DECLARE
{if_postgresql}     _job_id bigint;
{if_postgresql}     _abort_requested boolean;
{if_postgresql} BEGIN
{if_postgresql}     SELECT abort_requested FROM procrastinate_jobs
{if_postgresql}     WHERE id = job_id AND status = 'doing'
{if_postgresql}     FOR UPDATE
{if_postgresql}     INTO _abort_requested;
{if_postgresql}     IF _abort_requested THEN
{if_postgresql}         UPDATE procrastinate_jobs
{if_postgresql}         SET status = 'failed'::procrastinate_job_status
{if_postgresql}         WHERE id = job_id AND status = 'doing'
{if_postgresql}         RETURNING id INTO _job_id;
{if_postgresql}     ELSE
{if_postgresql}         UPDATE procrastinate_jobs
{if_postgresql}         SET status = 'todo'::procrastinate_job_status,
{if_postgresql}             attempts = attempts + 1,
{if_postgresql}             scheduled_at = retry_at,
{if_postgresql}             priority = COALESCE(new_priority, priority),
{if_postgresql}             queue_name = COALESCE(new_queue_name, queue_name),
{if_postgresql}             lock = COALESCE(new_lock, lock)
{if_postgresql}         WHERE id = job_id AND status = 'doing'
{if_postgresql}         RETURNING id INTO _job_id;
{if_postgresql}     END IF;

{if_postgresql}     IF _job_id IS NULL THEN
{if_postgresql}         RAISE 'Job was not found or not in "doing" status (job id: %)', job_id;
{if_postgresql}     END IF;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_retry_job_v2(
{if_postgresql}     job_id bigint,
{if_postgresql}     retry_at timestamp with time zone,
{if_postgresql}     new_priority integer,
{if_postgresql}     new_queue_name character varying,
{if_postgresql}     new_lock character varying
{if_postgresql} ) RETURNS void LANGUAGE plpgsql AS $$
{if_postgresql} DECLARE
{if_postgresql}     _job_id bigint;
{if_postgresql}     _abort_requested boolean;
{if_postgresql}     _current_status procrastinate_job_status;
{if_postgresql} BEGIN
{if_postgresql}     SELECT status, abort_requested FROM procrastinate_jobs
{if_postgresql}     WHERE id = job_id AND status IN ('doing', 'failed')
{if_postgresql}     FOR UPDATE
{if_postgresql}     INTO _current_status, _abort_requested;
{if_postgresql}     IF _current_status = 'doing' AND _abort_requested THEN
{if_postgresql}         UPDATE procrastinate_jobs
{if_postgresql}         SET status = 'failed'::procrastinate_job_status
{if_postgresql}         WHERE id = job_id AND status = 'doing'
{if_postgresql}         RETURNING id INTO _job_id;
{if_postgresql}     ELSE
{if_postgresql}         UPDATE procrastinate_jobs
{if_postgresql}         SET status = 'todo'::procrastinate_job_status,
{if_postgresql}             attempts = attempts + 1,
{if_postgresql}             scheduled_at = retry_at,
{if_postgresql}             priority = COALESCE(new_priority, priority),
{if_postgresql}             queue_name = COALESCE(new_queue_name, queue_name),
{if_postgresql}             lock = COALESCE(new_lock, lock)
{if_postgresql}         WHERE id = job_id AND status IN ('doing', 'failed')
{if_postgresql}         RETURNING id INTO _job_id;
{if_postgresql}     END IF;

{if_postgresql}     IF _job_id IS NULL THEN
{if_postgresql}         RAISE 'Job was not found or has an invalid status to retry (job id: %)', job_id;
{if_postgresql}     END IF;

{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_notify_queue_job_inserted_v1()
{if_postgresql}     RETURNS trigger
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} DECLARE
{if_postgresql}     payload TEXT;
{if_postgresql} BEGIN
{if_postgresql}     SELECT json_build_object('type', 'job_inserted', 'job_id', NEW.id)::text INTO payload;
{if_postgresql}     PERFORM pg_notify('procrastinate_queue_v1#' || NEW.queue_name, payload);
{if_postgresql}     PERFORM pg_notify('procrastinate_any_queue_v1', payload);
{if_postgresql}     RETURN NEW;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_notify_queue_abort_job_v1()
{if_postgresql} RETURNS trigger
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} DECLARE
{if_postgresql}     payload TEXT;
{if_postgresql} BEGIN
{if_postgresql}     SELECT json_build_object('type', 'abort_job_requested', 'job_id', NEW.id)::text INTO payload;
{if_postgresql}     PERFORM pg_notify('procrastinate_queue_v1#' || NEW.queue_name, payload);
{if_postgresql}     PERFORM pg_notify('procrastinate_any_queue_v1', payload);
{if_postgresql}     RETURN NEW;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_trigger_function_status_events_insert_v1()
{if_postgresql}     RETURNS trigger
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     INSERT INTO procrastinate_events(job_id, type)
{if_postgresql}         VALUES (NEW.id, 'deferred'::procrastinate_job_event_type);
{if_postgresql}     RETURN NEW;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_trigger_function_status_events_update_v1()
{if_postgresql}     RETURNS trigger
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     WITH t AS (
{if_postgresql}         SELECT CASE
{if_postgresql}             WHEN OLD.status = 'todo'::procrastinate_job_status
{if_postgresql}                 AND NEW.status = 'doing'::procrastinate_job_status
{if_postgresql}                 THEN 'started'::procrastinate_job_event_type
{if_postgresql}             WHEN OLD.status = 'doing'::procrastinate_job_status
{if_postgresql}                 AND NEW.status = 'todo'::procrastinate_job_status
{if_postgresql}                 THEN 'deferred_for_retry'::procrastinate_job_event_type
{if_postgresql}             WHEN OLD.status = 'doing'::procrastinate_job_status
{if_postgresql}                 AND NEW.status = 'failed'::procrastinate_job_status
{if_postgresql}                 THEN 'failed'::procrastinate_job_event_type
{if_postgresql}             WHEN OLD.status = 'doing'::procrastinate_job_status
{if_postgresql}                 AND NEW.status = 'succeeded'::procrastinate_job_status
{if_postgresql}                 THEN 'succeeded'::procrastinate_job_event_type
{if_postgresql}             WHEN OLD.status = 'todo'::procrastinate_job_status
{if_postgresql}                 AND (
{if_postgresql}                     NEW.status = 'cancelled'::procrastinate_job_status
{if_postgresql}                     OR NEW.status = 'failed'::procrastinate_job_status
{if_postgresql}                     OR NEW.status = 'succeeded'::procrastinate_job_status
{if_postgresql}                 )
{if_postgresql}                 THEN 'cancelled'::procrastinate_job_event_type
{if_postgresql}             WHEN OLD.status = 'doing'::procrastinate_job_status
{if_postgresql}                 AND NEW.status = 'aborted'::procrastinate_job_status
{if_postgresql}                 THEN 'aborted'::procrastinate_job_event_type
{if_postgresql}             WHEN OLD.status = 'failed'::procrastinate_job_status
{if_postgresql}                 AND NEW.status = 'todo'::procrastinate_job_status
{if_postgresql}                 THEN 'retried'::procrastinate_job_event_type
{if_postgresql}             ELSE NULL
{if_postgresql}         END as event_type
{if_postgresql}     )
{if_postgresql}     INSERT INTO procrastinate_events(job_id, type)
{if_postgresql}         SELECT NEW.id, t.event_type
{if_postgresql}         FROM t
{if_postgresql}         WHERE t.event_type IS NOT NULL;
{if_postgresql}     RETURN NEW;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_trigger_function_scheduled_events_v1()
{if_postgresql}     RETURNS trigger
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     INSERT INTO procrastinate_events(job_id, type, at)
{if_postgresql}         VALUES (NEW.id, 'scheduled'::procrastinate_job_event_type, NEW.scheduled_at);

{if_postgresql}     RETURN NEW;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_trigger_abort_requested_events_procedure_v1()
{if_postgresql}     RETURNS trigger
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     INSERT INTO procrastinate_events(job_id, type)
{if_postgresql}         VALUES (NEW.id, 'abort_requested'::procrastinate_job_event_type);
{if_postgresql}     RETURN NEW;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_unlink_periodic_defers_v1()
{if_postgresql}     RETURNS trigger
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     UPDATE procrastinate_periodic_defers
{if_postgresql}     SET job_id = NULL
{if_postgresql}     WHERE job_id = OLD.id;
{if_postgresql}     RETURN OLD;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_register_worker_v1()
{if_postgresql}     RETURNS TABLE(worker_id bigint)
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     RETURN QUERY
{if_postgresql}     INSERT INTO procrastinate_workers DEFAULT VALUES
{if_postgresql}     RETURNING procrastinate_workers.id;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_unregister_worker_v1(worker_id bigint)
{if_postgresql}     RETURNS void
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     DELETE FROM procrastinate_workers
{if_postgresql}     WHERE id = worker_id;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_update_heartbeat_v1(worker_id bigint)
{if_postgresql}     RETURNS void
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     UPDATE procrastinate_workers
{if_postgresql}     SET last_heartbeat = NOW()
{if_postgresql}     WHERE id = worker_id;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} CREATE FUNCTION procrastinate_prune_stalled_workers_v1(seconds_since_heartbeat float)
{if_postgresql}     RETURNS TABLE(worker_id bigint)
{if_postgresql}     LANGUAGE plpgsql
{if_postgresql} AS $$
{if_postgresql} BEGIN
{if_postgresql}     RETURN QUERY
{if_postgresql}     DELETE FROM procrastinate_workers
{if_postgresql}     WHERE last_heartbeat < NOW() - (seconds_since_heartbeat || 'SECOND')::INTERVAL
{if_postgresql}     RETURNING procrastinate_workers.id;
{if_postgresql} END;
{if_postgresql} $$;

{if_postgresql} -- Triggers

{if_postgresql} CREATE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1
{if_postgresql}     AFTER INSERT ON procrastinate_jobs
{if_postgresql}     FOR EACH ROW WHEN ((new.status = 'todo'::procrastinate_job_status))
{if_postgresql}     EXECUTE PROCEDURE procrastinate_notify_queue_job_inserted_v1();

{if_postgresql} CREATE TRIGGER procrastinate_jobs_notify_queue_job_aborted_v1
{if_postgresql}     AFTER UPDATE OF abort_requested ON procrastinate_jobs
{if_postgresql}     FOR EACH ROW WHEN ((old.abort_requested = false AND new.abort_requested = true AND new.status = 'doing'::procrastinate_job_status))
{if_postgresql}     EXECUTE PROCEDURE procrastinate_notify_queue_abort_job_v1();

{if_postgresql} CREATE TRIGGER procrastinate_trigger_status_events_update_v1
{if_postgresql}     AFTER UPDATE OF status ON procrastinate_jobs
{if_postgresql}     FOR EACH ROW
{if_postgresql}     EXECUTE PROCEDURE procrastinate_trigger_function_status_events_update_v1();

{if_postgresql} CREATE TRIGGER procrastinate_trigger_status_events_insert_v1
{if_postgresql}     AFTER INSERT ON procrastinate_jobs
{if_postgresql}     FOR EACH ROW WHEN ((new.status = 'todo'::procrastinate_job_status))
{if_postgresql}     EXECUTE PROCEDURE procrastinate_trigger_function_status_events_insert_v1();

{if_postgresql} CREATE TRIGGER procrastinate_trigger_scheduled_events_v1
{if_postgresql}     AFTER UPDATE OR INSERT ON procrastinate_jobs
{if_postgresql}     FOR EACH ROW WHEN ((new.scheduled_at IS NOT NULL AND new.status = 'todo'::procrastinate_job_status))
{if_postgresql}     EXECUTE PROCEDURE procrastinate_trigger_function_scheduled_events_v1();

{if_postgresql} CREATE TRIGGER procrastinate_trigger_abort_requested_events_v1
{if_postgresql}     AFTER UPDATE OF abort_requested ON procrastinate_jobs
{if_postgresql}     FOR EACH ROW WHEN ((new.abort_requested = true))
{if_postgresql}     EXECUTE PROCEDURE procrastinate_trigger_abort_requested_events_procedure_v1();

{if_postgresql} CREATE TRIGGER procrastinate_trigger_delete_jobs_v1
{if_postgresql}     BEFORE DELETE ON procrastinate_jobs
{if_postgresql}     FOR EACH ROW EXECUTE PROCEDURE procrastinate_unlink_periodic_defers_v1();

-- Ours: one job of a name, waiting or running; and who waits for what since when, for fair fetching.
{if_postgresql} CREATE UNIQUE INDEX paddock_job_names ON procrastinate_jobs ((args ->> 'tenant'), task_name, (args ->> 'key')) WHERE status IN ('todo', 'doing');
{if_postgresql} CREATE INDEX paddock_jobs_waiting ON procrastinate_jobs (queue_name, (COALESCE(scheduled_at, '-infinity'::timestamptz)), id) WHERE status = 'todo';

-- The name of a queue is a kind and a tenant, as queue/engine_jobs.py makes it.
{if_postgresql} SELECT procrastinate_defer_jobs_v1(ARRAY(SELECT ROW(
{if_postgresql}     left(encode(sha256(convert_to(kind, 'UTF8')), 'hex'), 12) || '.' || left(encode(sha256(convert_to(tenant, 'UTF8')), 'hex'), 16),
{if_postgresql}     kind, 0, NULL, NULL,
{if_postgresql}     jsonb_build_object('tenant', tenant, 'key', key, 'payload', payload, 'put_at', put_at, 'due_at', due_at, 'tries', tries, 'reason', reason),
{if_postgresql}     due_at::timestamptz)::procrastinate_job_to_defer_v1 FROM queue ORDER BY due_at));
{if_postgresql} DROP TABLE queue;

-- The epoch of a run is the id under which it is registered with the engine: higher than all that were given out.
{if_postgresql} SELECT setval(pg_get_serial_sequence('procrastinate_workers', 'id'), (SELECT COALESCE(MAX(epoch), 0) + 1 FROM nodes));
{if_postgresql} DROP TABLE nodes;

{if_postgresql} CREATE VIEW queue AS SELECT
{if_postgresql}     args ->> 'tenant' AS tenant, task_name::text AS kind, args ->> 'key' AS key, args ->> 'payload' AS payload,
{if_postgresql}     args ->> 'put_at' AS put_at, args ->> 'due_at' AS due_at,
{if_postgresql}     (args ->> 'tries')::bigint + attempts + (status = 'doing')::int AS tries, args ->> 'reason' AS reason,
{if_postgresql}     CASE WHEN status = 'doing' THEN (SELECT node FROM node_leases WHERE epoch = worker_id) END AS node,
{if_postgresql}     CASE WHEN status = 'doing' THEN worker_id END AS epoch
{if_postgresql} FROM procrastinate_jobs WHERE status IN ('todo', 'doing');

-- Who is dead is no longer counted in beats of ours: the engine does on PostgreSQL, and the kernel within one home.
ALTER TABLE node_leases DROP COLUMN beat;
