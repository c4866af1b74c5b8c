-- Secrets, each version sealed under a key of its own.
CREATE TABLE secrets (
    tenant {text} NOT NULL,
    name   {text} NOT NULL,
    PRIMARY KEY (tenant, name)
) {strict};
