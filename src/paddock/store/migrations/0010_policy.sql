CREATE TABLE policy_placeholder (id INTEGER);
