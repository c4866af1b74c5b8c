-- Requests for a person's yes, what people answered, and the yes that lasts. The call that waits for one lies beside it
-- with everything that is needed to make it later.

CREATE TABLE approvals (
    id             {text} PRIMARY KEY,
    tenant         {text} NOT NULL,
    kind           {text} NOT NULL,
    state          {text} NOT NULL,
    call           {text} NOT NULL,
    plugin         {text} NOT NULL,
    callable       {text} NOT NULL,
    requester      {text} NOT NULL,
    for_person     {text} NOT NULL,
    binding        {text} NOT NULL,
    binding_hash   {text} NOT NULL,
    token_hash     {text} NOT NULL,
    payload        {text} NOT NULL,
    context        {text} NOT NULL,
    reason         {text} NOT NULL,
    policy_version {text} NOT NULL,
    remember       {text} NOT NULL,
    created_at     {text} NOT NULL,
    expires_at     {text} NOT NULL,
    ended_at       {text},
    ended_why      {text} NOT NULL,
    replaces       {text}
) {strict};

CREATE INDEX approvals_by_state ON approvals (state, expires_at);
CREATE INDEX approvals_by_tenant ON approvals (tenant, created_at);
CREATE INDEX approvals_by_call ON approvals (call);

CREATE TABLE approval_answers (
    approval {text} NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
    who      {text} NOT NULL,
    approved INTEGER NOT NULL,
    at       {text} NOT NULL,
    comment  {text} NOT NULL,
    PRIMARY KEY (approval, who)
) {strict};

CREATE TABLE standing_approvals (
    id         {text} PRIMARY KEY,
    tenant     {text} NOT NULL,
    holder     {text} NOT NULL,
    plugin     {text} NOT NULL,
    callable   {text},
    session    {text},
    digest     {text} NOT NULL,
    definition {text},
    effects    {text},
    policies   {text} NOT NULL,
    given_by   {text} NOT NULL,
    given_at   {text} NOT NULL,
    approval   {text} NOT NULL,
    revoked_at {text},
    revoked_by {text}
) {strict};

CREATE INDEX standing_approvals_by_holder ON standing_approvals (tenant, holder, plugin);
