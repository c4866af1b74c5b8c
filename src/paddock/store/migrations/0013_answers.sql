-- Who passed an answer on where a person did not give it themselves, how far each yes was to last, and what those are
-- told who must not know why a rule asks.

ALTER TABLE approval_answers ADD COLUMN operator {text};
ALTER TABLE approval_answers ADD COLUMN scope {text} NOT NULL DEFAULT 'once';
ALTER TABLE approval_answers ADD COLUMN reach {text} NOT NULL DEFAULT 'tool';
ALTER TABLE standing_approvals ADD COLUMN operator {text};
ALTER TABLE approvals ADD COLUMN public_reason {text} NOT NULL DEFAULT '';
