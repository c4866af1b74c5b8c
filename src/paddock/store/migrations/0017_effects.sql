-- Effects, one row for each key that a call with an effect was made under: it happens once, whatever dies when.

-- While an effect is under way or in doubt, payload and context say with what it was made, for finding out what became
-- of it; they go when it is over. The result goes some weeks later (forgotten_at), and the row stays: a key that stood
-- for something is never free again.
CREATE TABLE effects (
    tenant       {text} NOT NULL,
    plugin       {text} NOT NULL,
    callable     {text} NOT NULL,
    key          {text} NOT NULL,
    call         {text} NOT NULL,
    state        {text} NOT NULL,
    fence        {bigint} NOT NULL,
    payload_hash {text} NOT NULL,
    node         {text} NOT NULL,
    epoch        {bigint} NOT NULL,
    recovery     {text} NOT NULL,
    claimed_at   {text} NOT NULL,
    started_at   {text},
    ended_at     {text},
    principal    {text},
    payload      {text},
    context      {text},
    result       {blob},
    error        {text},
    resolution   {text},
    resolved_by  {text},
    forgotten_at {text},
    PRIMARY KEY (tenant, plugin, callable, key)
) {strict};

CREATE INDEX effects_by_call ON effects (tenant, call);
CREATE INDEX effects_held ON effects (node, epoch) WHERE state IN ('claimed', 'started');
CREATE INDEX effects_open ON effects (state, claimed_at) WHERE state NOT IN ('succeeded', 'failed_no_effect');
CREATE INDEX effects_to_forget ON effects (ended_at) WHERE state = 'succeeded' AND forgotten_at IS NULL;
