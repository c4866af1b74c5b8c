-- How many calls were made in a day, by a tenant, by whoever calls, and to a plugin: for limits that hold over restarts
-- and for all nodes together. Kept only where such a limit is set.
CREATE TABLE quota_use (
    tenant {text} NOT NULL,
    whose  {text} NOT NULL,
    name   {text} NOT NULL,
    day    {text} NOT NULL,
    used   {bigint} NOT NULL,
    PRIMARY KEY (day, tenant, whose, name)
) {strict};
