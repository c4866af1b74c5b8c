-- Two indexes of effects that are not over become one. SQLite used neither: it takes an index with a condition only where
-- the statement repeats that condition. An effect that is not over is no more among those whose result expires some day.
DROP INDEX effects_held;
DROP INDEX effects_open;
DROP INDEX effects_to_forget;
CREATE INDEX effects_unfinished ON effects (state, claimed_at) WHERE state NOT IN ('succeeded', 'failed_no_effect');
CREATE INDEX effects_to_forget ON effects (ended_at) WHERE ended_at IS NOT NULL AND forgotten_at IS NULL;
