-- The packages that a version of a plugin runs with, each pinned by its hash. What is built from them is each node's own.

CREATE TABLE plugin_locks (
    plugin    {text} NOT NULL,
    version   {text} NOT NULL,
    ecosystem {text} NOT NULL,
    digest    {text} NOT NULL,
    lock      {text} NOT NULL,
    PRIMARY KEY (plugin, version),
    FOREIGN KEY (plugin, version) REFERENCES plugin_versions (plugin, version) ON DELETE CASCADE
) {strict};
