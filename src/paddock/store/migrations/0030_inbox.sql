-- What waits for a person, by urgency and by who may answer it, without reading all of it.
ALTER TABLE approvals ADD COLUMN risk {bigint} NOT NULL DEFAULT 1; -- the rank of its effects: 0 is the most dangerous
CREATE INDEX approvals_by_urgency ON approvals (tenant, risk, expires_at, created_at, id) WHERE state = 'pending';

-- Who may answer an open request (approver), and who may not because they asked for it (requester, with four eyes).
CREATE TABLE approval_parties (
    approval {text} NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
    who      {text} NOT NULL,
    part     {text} NOT NULL,
    PRIMARY KEY (approval, who, part)
) {strict};

CREATE INDEX approval_parties_by_who ON approval_parties (who, part);
