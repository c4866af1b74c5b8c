-- What was in doubt and is known now can be listed: see gate/effects/records.py.
CREATE INDEX effects_resolved ON effects (tenant, claimed_at, call) WHERE resolution IS NOT NULL;
