-- Why the daemon disabled a plugin that failed too often; empty where nobody did, or where a person decided.

ALTER TABLE grants ADD COLUMN given_up {text} NOT NULL DEFAULT '';
