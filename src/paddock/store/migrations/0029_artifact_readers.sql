-- Who may fetch an artifact: those who may call what made it, and those it was handed to.

CREATE TABLE artifact_makers (
    tenant   {text} NOT NULL,
    digest   {text} NOT NULL,
    plugin   {text} NOT NULL,
    callable {text} NOT NULL,
    PRIMARY KEY (tenant, digest, plugin, callable)
) {strict};

-- Principals whose calls the plugin answered with the address.
CREATE TABLE artifact_recipients (
    tenant    {text} NOT NULL,
    digest    {text} NOT NULL,
    principal {text} NOT NULL,
    plugin    {text} NOT NULL,
    PRIMARY KEY (tenant, digest, principal, plugin)
) {strict};

CREATE INDEX artifact_makers_by_plugin ON artifact_makers (plugin);
CREATE INDEX artifact_recipients_by_plugin ON artifact_recipients (plugin);
CREATE INDEX artifact_recipients_by_principal ON artifact_recipients (tenant, principal);
