-- People signed in at the console, and the links with which they sign in. Of both only the hash of the token is kept.

CREATE TABLE console_sessions (
    id         {text} PRIMARY KEY,
    tenant     {text} NOT NULL REFERENCES tenants (name),
    subject    {text} NOT NULL,
    hash       {text} NOT NULL UNIQUE,
    via        {text} NOT NULL,
    opened_at  {text} NOT NULL,
    seen_at    {text} NOT NULL,
    expires_at {text} NOT NULL,
    ended_at   {text}
) {strict};

CREATE INDEX console_sessions_by_subject ON console_sessions (tenant, subject);

CREATE TABLE login_links (
    id         {text} PRIMARY KEY,
    tenant     {text} NOT NULL REFERENCES tenants (name),
    subject    {text} NOT NULL,
    hash       {text} NOT NULL UNIQUE,
    made_at    {text} NOT NULL,
    made_by    {text} NOT NULL,
    expires_at {text} NOT NULL,
    used_at    {text}
) {strict};
