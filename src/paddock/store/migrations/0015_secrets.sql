-- Secrets, each version sealed under a data key of its own, and which keys those are wrapped with. No such key is here.

CREATE TABLE secret_keys (
    id       {text} PRIMARY KEY,
    source   {text} NOT NULL,
    salt     {blob},
    in_use   INTEGER NOT NULL,
    made_at  {text} NOT NULL
) {strict};

-- New secrets are sealed under one key. Others wait until a rotation has come to their end.
CREATE UNIQUE INDEX secret_keys_in_use ON secret_keys (in_use) WHERE in_use = 1;

-- `owner` is empty for what belongs to the whole tenant. A row without `sealed` is of a secret that was removed: its
-- versions go on where they ended.
CREATE TABLE secrets (
    tenant  {text} NOT NULL REFERENCES tenants (name),
    owner   {text} NOT NULL,
    name    {text} NOT NULL,
    version INTEGER NOT NULL,
    key_id  {text} REFERENCES secret_keys (id),
    wrapped {blob},
    sealed  {blob},
    set_at  {text} NOT NULL,
    set_by  {text} NOT NULL,
    PRIMARY KEY (tenant, owner, name)
) {strict};

CREATE INDEX secrets_by_key ON secrets (key_id, tenant, owner, name);
