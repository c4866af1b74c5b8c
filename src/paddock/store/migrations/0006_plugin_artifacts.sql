-- What plugins keep as artifacts: whose each one is. The bytes lie elsewhere, once a tenant, under their own hash.

CREATE TABLE plugin_artifacts (
    tenant     {text} NOT NULL,
    plugin     {text} NOT NULL,
    digest     {text} NOT NULL,
    media_type {text} NOT NULL,
    size       {bigint} NOT NULL,
    created_at {text} NOT NULL,
    PRIMARY KEY (tenant, plugin, digest)
) {strict};

-- Whether anybody still has the bytes, and who was handed their address.
CREATE INDEX plugin_artifacts_by_digest ON plugin_artifacts (tenant, digest);

-- Uninstalling looks for a plugin's artifacts of all tenants.
CREATE INDEX plugin_artifacts_by_plugin ON plugin_artifacts (plugin);

-- How much each keeps, so that keeping one more need not add it up.
CREATE TABLE plugin_artifact_totals (
    tenant {text} NOT NULL,
    plugin {text} NOT NULL,
    bytes  {bigint} NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (tenant, plugin)
) {strict};
