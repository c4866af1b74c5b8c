-- What is over goes after its time, whatever came of it: see gate/effects/forgetting.py.
DROP INDEX effects_to_forget;
CREATE INDEX effects_to_forget ON effects (ended_at) WHERE forgotten_at IS NULL;
