-- Holds this number too, until the migration that takes it is here.
SELECT 1;
