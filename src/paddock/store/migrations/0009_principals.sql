-- Who may act: tenants, their people, and the keys that act for people. A key is kept as the hash of its token.

CREATE TABLE tenants (
    name       {text} PRIMARY KEY,
    title      {text} NOT NULL,
    created_at {text}
) {strict};

-- It was there before anybody made one.
INSERT INTO tenants (name, title, created_at) VALUES ('default', 'Whoever uses this machine', NULL);

CREATE TABLE people (
    tenant       {text} NOT NULL REFERENCES tenants (name),
    name         {text} NOT NULL,
    display_name {text} NOT NULL,
    disabled     INTEGER NOT NULL,
    created_at   {text} NOT NULL,
    PRIMARY KEY (tenant, name)
) {strict};

CREATE TABLE person_roles (
    tenant {text} NOT NULL,
    person {text} NOT NULL,
    role   {text} NOT NULL,
    PRIMARY KEY (tenant, person, role),
    FOREIGN KEY (tenant, person) REFERENCES people (tenant, name) ON DELETE CASCADE
) {strict};

CREATE TABLE person_scopes (
    tenant {text} NOT NULL,
    person {text} NOT NULL,
    scope  {text} NOT NULL,
    PRIMARY KEY (tenant, person, scope),
    FOREIGN KEY (tenant, person) REFERENCES people (tenant, name) ON DELETE CASCADE
) {strict};

CREATE TABLE groups (
    tenant     {text} NOT NULL REFERENCES tenants (name),
    name       {text} NOT NULL,
    title      {text} NOT NULL,
    created_at {text} NOT NULL,
    PRIMARY KEY (tenant, name)
) {strict};

CREATE TABLE group_members (
    tenant     {text} NOT NULL,
    group_name {text} NOT NULL,
    person     {text} NOT NULL,
    PRIMARY KEY (tenant, group_name, person),
    FOREIGN KEY (tenant, group_name) REFERENCES groups (tenant, name) ON DELETE CASCADE,
    FOREIGN KEY (tenant, person) REFERENCES people (tenant, name) ON DELETE CASCADE
) {strict};

-- Which groups somebody is in: asked whenever they act.
CREATE INDEX group_members_by_person ON group_members (tenant, person);

CREATE TABLE api_keys (
    id           {text} PRIMARY KEY,
    tenant       {text} NOT NULL,
    owner        {text} NOT NULL,
    label        {text} NOT NULL,
    hash         {text} NOT NULL,
    roles        {text} NOT NULL,
    scopes       {text} NOT NULL,
    created_at   {text} NOT NULL,
    created_by   {text} NOT NULL,
    expires_at   {text},
    revoked_at   {text},
    last_used_at {text},
    FOREIGN KEY (tenant, owner) REFERENCES people (tenant, name) ON DELETE CASCADE
) {strict};

CREATE INDEX api_keys_by_owner ON api_keys (tenant, owner);

-- What a person enabled for themselves and consented to. Not tied to the people: whoever sits at the machine consents
-- too. Nor to the plugins: code that an application embeds can be consented to.
CREATE TABLE person_consents (
    tenant     {text} NOT NULL,
    person     {text} NOT NULL,
    plugin     {text} NOT NULL,
    callable   {text} NOT NULL,
    given_at   {text} NOT NULL,
    given_by   {text} NOT NULL,
    revoked_at {text},
    PRIMARY KEY (tenant, person, plugin, callable)
) {strict};

-- Uninstalling looks for a plugin's consents of all tenants.
CREATE INDEX person_consents_by_plugin ON person_consents (plugin);
