-- When a plugin's server first said what it offers. That alone is trusted unasked: whatever comes later waits, even
-- where there was nothing to trust, and so no definition tells of it.

CREATE TABLE plugin_meetings (
    tenant   {text} NOT NULL,
    plugin   {text} NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    first_at {text} NOT NULL,
    PRIMARY KEY (tenant, plugin)
) {strict};

-- Uninstalling looks for a plugin's rows of all tenants.
CREATE INDEX plugin_meetings_by_plugin ON plugin_meetings (plugin);

INSERT INTO plugin_meetings (tenant, plugin, first_at)
SELECT tenant, plugin, MIN(first_seen) FROM plugin_definitions GROUP BY tenant, plugin;
