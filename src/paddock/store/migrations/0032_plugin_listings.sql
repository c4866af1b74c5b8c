-- When a plugin's server last said what it offers, and as which files. What it said in a trial counts until it runs.

CREATE TABLE plugin_listings (
    tenant  {text} NOT NULL,
    plugin  {text} NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    digest  {text} NOT NULL, -- of the version's files
    seen_at {text} NOT NULL,
    tried   INTEGER NOT NULL, -- whether that was in a trial
    PRIMARY KEY (tenant, plugin)
) {strict};

-- Uninstalling looks for a plugin's rows of all tenants.
CREATE INDEX plugin_listings_by_plugin ON plugin_listings (plugin);
