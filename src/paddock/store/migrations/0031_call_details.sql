-- What the ledger does not say of a call: with which inputs it was made (secrets left out), and from where. The newest
-- of each tenant are kept, and all of a person go with their erasure.
CREATE TABLE call_details (
    tenant          {text} NOT NULL,
    call            {text} NOT NULL,
    plugin          {text} NOT NULL,
    callable        {text} NOT NULL,
    principal       {text} NOT NULL,
    owner           {text},
    origin          {text},
    inputs          {text},
    redacted        {text} NOT NULL,
    idempotency_key {text},
    PRIMARY KEY (tenant, call)
) {strict};

CREATE INDEX call_details_by_key ON call_details (tenant, plugin, callable, idempotency_key, call)
    WHERE idempotency_key IS NOT NULL;

-- Denied calls are few among many too. The condition is word for word that of host/calls/call_history.py.
CREATE INDEX ledger_of_denied_calls ON ledger (tenant, type, seq) WHERE type = 'call.ended'
    AND facts <> replace(facts, '"status":"denied"', '');
