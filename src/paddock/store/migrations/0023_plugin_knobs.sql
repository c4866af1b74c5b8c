-- What people set knobs of plugins to: the project's side of a plugin's configuration, as long as there are no projects.
-- Not tied to a version: what an upgrade does not take is there again after a rollback.

CREATE TABLE plugin_knobs (
    tenant     {text} NOT NULL,
    plugin     {text} NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    knob       {text} NOT NULL,
    value      {text} NOT NULL,
    changed_at {text} NOT NULL,
    PRIMARY KEY (tenant, plugin, knob)
) {strict};

-- Uninstalling looks for a plugin's rows of all tenants.
CREATE INDEX plugin_knobs_by_plugin ON plugin_knobs (plugin);
