-- What plugins keep by key. Not tied to the table of plugins: code that an application embeds keeps values too.

CREATE TABLE plugin_values (
    tenant     {text} NOT NULL,
    plugin     {text} NOT NULL,
    key        {text} NOT NULL,
    value      {text} NOT NULL,
    size       INTEGER NOT NULL,
    changed_at {text} NOT NULL,
    PRIMARY KEY (tenant, plugin, key)
) {strict};

-- Uninstalling looks for a plugin's values of all tenants.
CREATE INDEX plugin_values_by_plugin ON plugin_values (plugin);

-- How much each keeps, so that a put need not add it up.
CREATE TABLE plugin_value_totals (
    tenant {text} NOT NULL,
    plugin {text} NOT NULL,
    bytes  {bigint} NOT NULL,
    keys   INTEGER NOT NULL,
    PRIMARY KEY (tenant, plugin)
) {strict};
