-- Who is told of a tenant's events elsewhere. The ledger is what there is to tell; a webhook has its place in it.
CREATE TABLE webhooks (
    tenant       {text} NOT NULL REFERENCES tenants (name),
    id           {text} NOT NULL,
    url          {text} NOT NULL,
    label        {text} NOT NULL,
    types        {text} NOT NULL, -- the patterns, as a list in JSON
    personal     INTEGER NOT NULL, -- 1: told too what entries say of people
    enabled      INTEGER NOT NULL,
    disabled_why {text},
    created_at   {text} NOT NULL,
    created_by   {text} NOT NULL,
    before_until {text}, -- until when the signing secret before counts too
    position     {bigint} NOT NULL, -- every entry up to this one was taken, does not fit, or is among the dead
    attempts     {bigint} NOT NULL, -- to deliver the next one
    reason       {text}, -- why the last attempt failed
    failing_at   {text}, -- and when that was
    delivered    {bigint} NOT NULL,
    delivered_at {text},
    PRIMARY KEY (tenant, id)
) {strict};

-- Entries that were tried as often as they may be. What was to be sent is made from the ledger again.
CREATE TABLE webhook_dead (
    tenant   {text} NOT NULL,
    webhook  {text} NOT NULL,
    seq      {bigint} NOT NULL,
    event_id {text} NOT NULL,
    type     {text} NOT NULL,
    attempts {bigint} NOT NULL,
    reason   {text} NOT NULL,
    died_at  {text} NOT NULL,
    again    INTEGER NOT NULL, -- 1: to be tried once more
    PRIMARY KEY (tenant, webhook, seq),
    FOREIGN KEY (tenant, webhook) REFERENCES webhooks (tenant, id) ON DELETE CASCADE
) {strict};
