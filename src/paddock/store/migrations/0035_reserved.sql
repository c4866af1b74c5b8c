-- Holds this number until the migration that takes it is here.
SELECT 1;
