-- How much waits for people, and for whom, without reading all of it.
ALTER TABLE approvals ADD COLUMN payload_bytes {bigint} NOT NULL DEFAULT 0;
UPDATE approvals SET payload_bytes = LENGTH(payload);
CREATE INDEX approvals_waiting ON approvals (tenant, state, requester, payload_bytes);
