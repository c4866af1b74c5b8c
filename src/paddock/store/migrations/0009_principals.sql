CREATE TABLE principals_placeholder (id INTEGER);
