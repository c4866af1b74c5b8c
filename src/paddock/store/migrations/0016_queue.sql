-- Timed and durable work.
CREATE TABLE queue (
    tenant {text} NOT NULL,
    kind   {text} NOT NULL,
    key    {text} NOT NULL,
    PRIMARY KEY (tenant, kind, key)
) {strict};
