-- A chain starts at row 1. SQLite cannot add a check to a table without copying it, and a ledger may be large; rows that
-- are already there stay, for verification to report.
{if_sqlite} CREATE TRIGGER ledger_inserts_from_row_1 BEFORE INSERT ON ledger WHEN NEW.seq < 1 BEGIN SELECT RAISE(ABORT, 'CHECK constraint failed: seq >= 1'); END;
{if_sqlite} CREATE TRIGGER ledger_updates_from_row_1 BEFORE UPDATE OF seq ON ledger WHEN NEW.seq < 1 BEGIN SELECT RAISE(ABORT, 'CHECK constraint failed: seq >= 1'); END;
{if_postgresql} ALTER TABLE ledger ADD CONSTRAINT ledger_from_row_1 CHECK (seq >= 1) NOT VALID;
