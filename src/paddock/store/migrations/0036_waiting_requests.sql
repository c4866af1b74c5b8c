-- What waits for a person is rows and indexes alone. There is no job for each request any more: a timer of each host
-- looks at the nearest deadline of each tenant.
DELETE FROM queue WHERE kind = 'approval.expire';

DROP INDEX approvals_by_state;
DROP INDEX approvals_by_tenant;
DROP INDEX approvals_waiting;
DROP INDEX approvals_by_urgency;
CREATE INDEX approvals_by_age ON approvals (tenant, created_at, id);
CREATE INDEX approvals_open ON approvals (tenant, created_at, id) WHERE ended_at IS NULL;
CREATE INDEX approvals_due ON approvals (tenant, expires_at, id) WHERE ended_at IS NULL;
CREATE INDEX approvals_open_of_requester ON approvals (tenant, requester, created_at, id, payload_bytes)
    WHERE ended_at IS NULL;
CREATE INDEX approvals_open_of_plugin ON approvals (tenant, plugin, created_at, id) WHERE ended_at IS NULL;
CREATE INDEX approvals_unused ON approvals (id, expires_at, tenant, plugin, callable, state) WHERE state = 'approved';

-- Who has to do with a pending request: who may answer it (approver), whose call it is (owner), who may not answer it
-- because they asked for it (barred) or have answered it (answered). In the order of the inbox, so that a page of it is
-- a part of the index.
ALTER TABLE approval_parties RENAME TO approval_parties_before_36;
DROP INDEX approval_parties_by_who;
CREATE TABLE approval_parties (
    approval   {text} NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
    who        {text} NOT NULL,
    part       {text} NOT NULL,
    tenant     {text} NOT NULL,
    kind       {text} NOT NULL,
    risk       {bigint} NOT NULL,
    expires_at {text} NOT NULL,
    created_at {text} NOT NULL,
    PRIMARY KEY (approval, who, part)
{if_sqlite} ) STRICT, WITHOUT ROWID;
{if_postgresql} );

INSERT INTO approval_parties (approval, who, part, tenant, kind, risk, expires_at, created_at)
    SELECT id, who, part, tenant, kind, risk, expires_at, created_at FROM approvals JOIN (
        SELECT approval, who, CASE WHEN part = 'requester' THEN 'barred' ELSE part END AS part
            FROM approval_parties_before_36
        UNION SELECT id, 'role:operator', 'approver' FROM approvals WHERE kind IN ('action', 'gate')
        UNION SELECT id, requester, 'owner' FROM approvals
        UNION SELECT id, for_person, 'owner' FROM approvals WHERE for_person <> ''
        UNION SELECT approval, who, 'answered' FROM approval_answers
    ) AS parties ON parties.approval = id WHERE state = 'pending';
DROP TABLE approval_parties_before_36;
CREATE INDEX approval_parties_by_urgency
    ON approval_parties (tenant, who, part, kind, risk, expires_at, created_at, approval);

-- Who may see a request beside operators, also after it has ended, by age.
CREATE TABLE approval_viewers (
    tenant     {text} NOT NULL,
    who        {text} NOT NULL,
    ended      INTEGER NOT NULL,
    created_at {text} NOT NULL,
    approval   {text} NOT NULL,
    PRIMARY KEY (tenant, who, ended, created_at, approval)
{if_sqlite} ) STRICT, WITHOUT ROWID;
{if_postgresql} );

INSERT INTO approval_viewers (tenant, who, ended, created_at, approval)
    SELECT tenant, who, CASE WHEN ended_at IS NULL THEN 0 ELSE 1 END, created_at, id FROM approvals JOIN (
        SELECT id AS approval, requester AS who FROM approvals
        UNION SELECT id, for_person FROM approvals
{if_sqlite} UNION SELECT approvals.id, one.value FROM approvals, json_each(binding, '$.approvers') AS one WHERE kind IN ('action', 'gate')
{if_postgresql} UNION SELECT approvals.id, one.value FROM approvals, json_array_elements_text(binding::json -> 'approvers') AS one (value) WHERE kind IN ('action', 'gate')
    ) AS viewers ON viewers.approval = id WHERE who <> '';
