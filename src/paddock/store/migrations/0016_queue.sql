-- Who works on this database: each home is a node, and each of its starts has an epoch of its own.
CREATE TABLE nodes (
    node  {text} PRIMARY KEY,
    epoch {bigint} NOT NULL -- the last one that was given out
) {strict};

-- Those that run. Each raises its beat again and again; whoever sees it stand still for long enough takes the row away,
-- and what it held is free.
CREATE TABLE node_leases (
    node    {text} NOT NULL,
    epoch   {bigint} NOT NULL,
    lasting INTEGER NOT NULL, -- 1 for a daemon, 0 for a single command
    beat    {bigint} NOT NULL,
    PRIMARY KEY (node, epoch)
) {strict};

-- Timed and durable work: what is to be done, when, and who is doing it now.
CREATE TABLE queue (
    tenant  {text} NOT NULL,
    kind    {text} NOT NULL,
    key     {text} NOT NULL,
    payload {text} NOT NULL,
    put_at  {text} NOT NULL,
    due_at  {text} NOT NULL,
    tries   {bigint} NOT NULL,
    reason  {text}, -- why it was put off the last time
    node    {text},
    epoch   {bigint},
    PRIMARY KEY (tenant, kind, key)
) {strict};

CREATE INDEX queue_free ON queue (due_at, tenant, kind) WHERE node IS NULL;
CREATE INDEX queue_free_of_tenant ON queue (tenant, due_at, kind, key) WHERE node IS NULL;
CREATE INDEX queue_held ON queue (node, epoch) WHERE node IS NOT NULL;

-- Requests that are open end on time like those that are made from now on.
INSERT INTO queue (tenant, kind, key, payload, put_at, due_at, tries)
    SELECT tenant, 'approval.expire', id, '{}', created_at, expires_at, 0 FROM approvals
    WHERE state IN ('pending', 'approved');
