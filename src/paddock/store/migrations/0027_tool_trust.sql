-- What people take a plugin's word for, tool by tool: that it only reads, or that its errors mean that nothing was done.
-- It counts for the files and the definition that there were: with others, nobody has said anything.

CREATE TABLE tool_trust (
    tenant     {text} NOT NULL,
    plugin     {text} NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    tool       {text} NOT NULL,
    word       {text} NOT NULL,
    digest     {text} NOT NULL, -- of the version's files
    hash       {text} NOT NULL, -- of the tool's definition; empty where the package declares it
    trusted_by {text} NOT NULL,
    trusted_at {text} NOT NULL,
    PRIMARY KEY (tenant, plugin, tool, word)
) {strict};

-- Uninstalling looks for a plugin's rows of all tenants.
CREATE INDEX tool_trust_by_plugin ON tool_trust (plugin);
