-- The ledger takes the place of the table of events: what happened, chained by hash, one chain a tenant.

DROP TABLE events;

-- Facts are hashed as they stand. What is about a person is hashed by a commitment, so that it can be erased: then
-- personal, salt and principal are null, and the commitment stays. Facts and personal are canonical JSON.
CREATE TABLE ledger (
    tenant     {text} NOT NULL,
    seq        {bigint} NOT NULL,
    id         {text} NOT NULL UNIQUE,
    at         {text} NOT NULL,
    type       {text} NOT NULL,
    plugin     {text},
    call       {text},
    request    {text},
    principal  {text},
    facts      {text} NOT NULL,
    personal   {text},
    salt       {blob},
    commitment {blob},
    hash       {blob} NOT NULL,
    PRIMARY KEY (tenant, seq)
) {strict};

CREATE INDEX ledger_by_type ON ledger (tenant, type, seq);
CREATE INDEX ledger_by_plugin ON ledger (tenant, plugin, seq) WHERE plugin IS NOT NULL;
CREATE INDEX ledger_by_call ON ledger (call) WHERE call IS NOT NULL;
CREATE INDEX ledger_by_request ON ledger (request) WHERE request IS NOT NULL;
CREATE INDEX ledger_by_principal ON ledger (tenant, principal, seq) WHERE principal IS NOT NULL;

-- Where each chain ends. Whoever appends changes this row first, so that nobody else does at the same time.
CREATE TABLE ledger_heads (
    tenant {text} PRIMARY KEY,
    seq    {bigint} NOT NULL,
    hash   {blob} NOT NULL
) {strict};

-- The last checkpoint that each key has signed. The checkpoints themselves lie outside the database; this tells when
-- some of them are gone.
CREATE TABLE ledger_checkpoints (
    tenant {text} NOT NULL,
    key_id {text} NOT NULL,
    to_seq {bigint} NOT NULL,
    hash   {text} NOT NULL,
    PRIMARY KEY (tenant, key_id)
) {strict};
