-- Plugins, what people granted them, and what happened. Times are ISO-8601 in UTC, flags are 0 or 1, JSON is text.

CREATE TABLE plugins (
    name            {text} PRIMARY KEY,
    title           {text} NOT NULL,
    default_version {text} NOT NULL,
    pinned_version  {text},
    local           INTEGER NOT NULL,
    installed_at    {text} NOT NULL
) {strict};

CREATE TABLE plugin_versions (
    plugin        {text} NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    version       {text} NOT NULL,
    digest        {text} NOT NULL,
    blob          {text} NOT NULL,
    dialect       {text} NOT NULL,
    manifest      {text} NOT NULL,
    source        {text} NOT NULL,
    signature     {text},
    tree          {text} NOT NULL,
    installed_at  {text} NOT NULL,
    superseded_at {text},
    PRIMARY KEY (plugin, version)
) {strict};

CREATE TABLE grants (
    tenant       {text} NOT NULL,
    plugin       {text} NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    enabled      INTEGER NOT NULL,
    capabilities {text} NOT NULL,
    digest       {text} NOT NULL,
    changed_at   {text} NOT NULL,
    PRIMARY KEY (tenant, plugin)
) {strict};

-- Deleting a plugin looks for its grants, and the key above begins with the tenant.
CREATE INDEX grants_by_plugin ON grants (plugin);

CREATE TABLE aliases (
    alias    {text} PRIMARY KEY,
    plugin   {text} NOT NULL,
    callable {text} NOT NULL
) {strict};

CREATE TABLE trusted_keys (
    key_id     {text} PRIMARY KEY,
    public_key {text} NOT NULL,
    label      {text} NOT NULL,
    tier       {text} NOT NULL,
    added_at   {text} NOT NULL
) {strict};

CREATE TABLE events (
    id     {text} PRIMARY KEY,
    at     {text} NOT NULL,
    type   {text} NOT NULL,
    tenant {text} NOT NULL,
    plugin {text},
    data   {text} NOT NULL
) {strict};

CREATE INDEX events_by_type ON events (type, at);
CREATE INDEX events_by_plugin ON events (plugin, at);

-- Filled on PostgreSQL only; the embedded store keeps its blobs as files.
CREATE TABLE blobs (
    digest {text} PRIMARY KEY,
    size   {bigint} NOT NULL,
    data   {blob} NOT NULL,
    put_at {text} NOT NULL DEFAULT ''
) {strict};
