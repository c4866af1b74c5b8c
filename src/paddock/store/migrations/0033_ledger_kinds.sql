-- Rows of the ledger become half as large: what many of them share is stored once, and rows refer to it by number. What
-- is hashed stays the same, byte for byte. The rows themselves are moved before the next migration, a few at a time.

{if_sqlite} DROP TRIGGER IF EXISTS ledger_inserts_from_row_1;
{if_sqlite} DROP TRIGGER IF EXISTS ledger_updates_from_row_1;
DROP INDEX IF EXISTS ledger_by_type;
DROP INDEX IF EXISTS ledger_by_plugin;
DROP INDEX IF EXISTS ledger_by_call;
DROP INDEX IF EXISTS ledger_by_request;
DROP INDEX IF EXISTS ledger_by_principal;
DROP INDEX IF EXISTS ledger_of_failed_calls;
DROP INDEX IF EXISTS ledger_of_denied_calls;
ALTER TABLE ledger RENAME TO ledger_before_33;

-- The number of each tenant's chain.
CREATE TABLE ledger_chains (
    chain  {bigint} PRIMARY KEY,
    tenant {text} NOT NULL UNIQUE
) {strict};

-- The types of entries, each with the facts by which entries of the type are listed.
CREATE TABLE ledger_kinds (
    chain {bigint} NOT NULL,
    kind  {bigint} NOT NULL,
    type  {text} NOT NULL,
    facts {text} NOT NULL,
    PRIMARY KEY (chain, kind),
    UNIQUE (chain, type, facts)
) {strict};

-- What the facts of many entries have in common, with gaps for the rest. See ledger/stored_row.py.
CREATE TABLE ledger_templates (
    chain    {bigint} NOT NULL,
    template {bigint} NOT NULL,
    digest   {blob} NOT NULL,
    facts    {text} NOT NULL,
    PRIMARY KEY (chain, template),
    UNIQUE (chain, digest)
) {strict};

-- The earliest and the latest time in each thousand rows. Clocks can be set back, so rows are only nearly in the order of
-- their times.
CREATE TABLE ledger_times (
    chain    {bigint} NOT NULL,
    block    {bigint} NOT NULL,
    first_at {text} NOT NULL,
    last_at  {text} NOT NULL,
    PRIMARY KEY (chain, block)
) {strict};

-- As before, facts are hashed as they stand, and what is about a person by a commitment, so that it can be erased. The
-- commitment is stored when that happens; until then it follows from personal and salt.
CREATE TABLE ledger (
    chain      {bigint} NOT NULL,
    seq        {bigint} NOT NULL,
    id         {text} NOT NULL UNIQUE,
    at         {text} NOT NULL,
    kind       {bigint} NOT NULL,
    plugin     {text},
    call       {text},
    request    {text},
    principal  {text},
    template   {bigint},
    facts      {text} NOT NULL,
    personal   {text},
    salt       {blob},
    commitment {blob},
    hash       {blob} NOT NULL,
    PRIMARY KEY (chain, seq)
) {strict};

CREATE INDEX ledger_by_kind ON ledger (chain, kind, seq);
CREATE INDEX ledger_by_plugin ON ledger (chain, plugin, seq) WHERE plugin IS NOT NULL;
CREATE INDEX ledger_by_call ON ledger (call) WHERE call IS NOT NULL;
CREATE INDEX ledger_by_request ON ledger (request) WHERE request IS NOT NULL;
CREATE INDEX ledger_by_principal ON ledger (chain, principal, seq) WHERE principal IS NOT NULL;
