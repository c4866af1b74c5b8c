-- What people of a tenant said to leave alone. It counts for the cause that there was: with another one it is told again.
CREATE TABLE ignored_repairs (
    tenant      {text} NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
    repair      {text} NOT NULL,
    fingerprint {text} NOT NULL, -- of that cause
    ignored_at  {text} NOT NULL,
    ignored_by  {text} NOT NULL,
    PRIMARY KEY (tenant, repair)
) {strict};
