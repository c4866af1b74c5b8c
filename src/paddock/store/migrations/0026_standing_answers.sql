-- Which standing approval answered a request that waited when it was given.

ALTER TABLE approval_answers ADD COLUMN standing {text};
CREATE INDEX approval_answers_by_standing ON approval_answers (standing) WHERE standing IS NOT NULL;
