-- What servers say that they offer, each beside what a person accepted. It belongs to a plugin, whatever its version.

CREATE TABLE plugin_definitions (
    tenant       {text} NOT NULL,
    plugin       {text} NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    kind         {text} NOT NULL,
    name         {text} NOT NULL,
    standing     {text} NOT NULL,
    reason       {text} NOT NULL,
    repair       {text} NOT NULL,
    hash         {text},
    shape        {text},
    definition   {text} NOT NULL,
    waiting_hash {text},
    waiting      {text} NOT NULL,
    first_seen   {text} NOT NULL,
    last_seen    {text} NOT NULL,
    accepted_by  {text} NOT NULL,
    accepted_at  {text},
    PRIMARY KEY (tenant, plugin, kind, name)
) {strict};

-- Uninstalling looks for a plugin's rows of all tenants.
CREATE INDEX plugin_definitions_by_plugin ON plugin_definitions (plugin);
