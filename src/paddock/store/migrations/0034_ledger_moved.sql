-- All rows are in the new table. A chain starts at row 1: see migration 28. Rows before it that somebody put there were
-- moved too, for verification to report.
DROP TABLE ledger_before_33;
{if_sqlite} CREATE TRIGGER ledger_inserts_from_row_1 BEFORE INSERT ON ledger WHEN NEW.seq < 1 BEGIN SELECT RAISE(ABORT, 'CHECK constraint failed: seq >= 1'); END;
{if_sqlite} CREATE TRIGGER ledger_updates_from_row_1 BEFORE UPDATE OF seq ON ledger WHEN NEW.seq < 1 BEGIN SELECT RAISE(ABORT, 'CHECK constraint failed: seq >= 1'); END;
{if_postgresql} ALTER TABLE ledger ADD CONSTRAINT ledger_from_row_1 CHECK (seq >= 1) NOT VALID;
