CREATE TABLE ledger_placeholder (id INTEGER);
