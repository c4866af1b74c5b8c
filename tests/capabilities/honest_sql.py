"""SQL as plugin authors write it: each story is a few statements, the last of which is a query, and what it finds."""

from __future__ import annotations

from typing import Any, NamedTuple


class Story(NamedTuple):
    statements: list[str]
    finds: list[tuple[Any, ...]]


_NOTES = "CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT, stars INTEGER DEFAULT 0)"
_THREE = (
    "INSERT INTO notes (title, body, stars) VALUES ('one', 'a red fox', 1), ('two', 'a blue fox', 2), ('three', '', 3)"
)

STORIES: dict[str, Story] = {
    "a table": Story([_NOTES, _THREE, "SELECT count(*) FROM notes"], [(3,)]),
    "a table made twice": Story(
        [_NOTES, _NOTES.replace("TABLE", "TABLE IF NOT EXISTS"), "SELECT count(*) FROM notes"], [(0,)]
    ),
    "a qualified name": Story([_NOTES, _THREE, "SELECT main.notes.id FROM main.notes WHERE id = 1"], [(1,)]),
    "a trailing semicolon and a remark": Story([_NOTES + " ; -- done", "SELECT 1; /* that is all */ "], [(1,)]),
    "a remark first": Story(["-- the tables\n/* of notes */ " + _NOTES, "SELECT count(*) FROM notes"], [(0,)]),
    "an update": Story([_NOTES, _THREE, "UPDATE notes SET stars = stars + 1", "SELECT sum(stars) FROM notes"], [(9,)]),
    "an update from another table": Story(
        [_NOTES, _THREE, "CREATE TABLE extra (id, n)", "INSERT INTO extra VALUES (1, 10)",
         "UPDATE notes SET stars = n FROM extra WHERE extra.id = notes.id", "SELECT max(stars) FROM notes"], [(10,)]),
    "a delete": Story([_NOTES, _THREE, "DELETE FROM notes WHERE stars > 1", "SELECT title FROM notes"], [("one",)]),
    "an upsert": Story(
        ["CREATE TABLE kv (k TEXT PRIMARY KEY, v, n INTEGER DEFAULT 1)", "INSERT INTO kv (k, v) VALUES ('a', 1)",
         "INSERT INTO kv (k, v) VALUES ('a', 2) ON CONFLICT (k) DO UPDATE SET v = excluded.v, n = n + 1",
         "SELECT * FROM kv"], [("a", 2, 2)]),
    "insert or replace": Story(
        ["CREATE TABLE kv (k PRIMARY KEY, v)", "INSERT OR REPLACE INTO kv VALUES (1, 1)",
         "INSERT OR REPLACE INTO kv VALUES (1, 2)", "INSERT OR IGNORE INTO kv VALUES (1, 3)", "SELECT v FROM kv"],
        [(2,)]),
    "a strict table": Story(
        ["CREATE TABLE s (a INT, b TEXT, c BLOB, d REAL, e ANY) STRICT", "INSERT INTO s VALUES (1, 'x', x'00', 1, 2)",
         "SELECT typeof(d), typeof(e) FROM s"], [("real", "integer")]),
    "a table without rowid": Story(
        ["CREATE TABLE w (a TEXT, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID", "INSERT INTO w VALUES ('x', 1)",
         "SELECT * FROM w"], [("x", 1)]),
    "generated columns": Story(
        ["CREATE TABLE g (a, b AS (a * 2), c AS (a || '!') STORED)", "INSERT INTO g (a) VALUES (4)",
         "SELECT b, c FROM g"], [(8, "4!")]),
    "autoincrement": Story(
        ["CREATE TABLE n (id INTEGER PRIMARY KEY AUTOINCREMENT, x)", "INSERT INTO n (x) VALUES (1), (2)",
         "DELETE FROM n", "INSERT INTO n (x) VALUES (3)", "SELECT id FROM n"], [(3,)]),
    "a check": Story(
        ["CREATE TABLE c (a CHECK (a > 0), b DEFAULT (lower('X')))", "INSERT INTO c (a) VALUES (1)", "SELECT * FROM c"],
        [(1, "x")]),
    "foreign keys": Story(
        ["CREATE TABLE p (id INTEGER PRIMARY KEY)", "CREATE TABLE c (p REFERENCES p (id) ON DELETE CASCADE)",
         "INSERT INTO p VALUES (1)", "INSERT INTO c VALUES (1)", "DELETE FROM p", "SELECT count(*) FROM c"], [(0,)]),
    "a trigger": Story(
        [_NOTES, "CREATE TABLE journal (what)",
         "CREATE TRIGGER noted AFTER INSERT ON notes BEGIN INSERT INTO journal VALUES (new.title); END",
         _THREE, "SELECT group_concat(what) FROM journal"], [("one,two,three",)]),
    "a trigger that refuses": Story(
        [_NOTES, "CREATE TRIGGER no BEFORE DELETE ON notes WHEN old.stars > 9 BEGIN SELECT RAISE(ABORT, 'kept'); END",
         _THREE, "DELETE FROM notes", "SELECT count(*) FROM notes"], [(0,)]),
    "a view that can be written": Story(
        [_NOTES, "CREATE VIEW titles AS SELECT title FROM notes",
         "CREATE TRIGGER t INSTEAD OF INSERT ON titles BEGIN INSERT INTO notes (title) VALUES (new.title); END",
         "INSERT INTO titles VALUES ('made')", "SELECT title FROM notes"], [("made",)]),
    "a view": Story(
        [_NOTES, _THREE, "CREATE VIEW best AS SELECT title FROM notes WHERE stars > 1", "SELECT * FROM best"],
        [("two",), ("three",)]),
    "indexes": Story(
        [_NOTES, _THREE, "CREATE INDEX by_title ON notes (title COLLATE NOCASE)",
         "CREATE UNIQUE INDEX starred ON notes (title) WHERE stars > 1", "CREATE INDEX lowered ON notes (lower(title))",
         "DROP INDEX by_title", "SELECT id FROM notes WHERE lower(title) = 'two'"], [(2,)]),
    "alter table": Story(
        [_NOTES, _THREE, "ALTER TABLE notes ADD COLUMN color TEXT NOT NULL DEFAULT 'red' CHECK (color <> '')",
         "ALTER TABLE notes RENAME COLUMN color TO colour", "ALTER TABLE notes DROP COLUMN body",
         "ALTER TABLE notes RENAME TO papers", "SELECT * FROM papers WHERE id = 1"], [(1, "one", 1, "red")]),
    "alter table with a column that is checked": Story(
        [_NOTES, _THREE, "ALTER TABLE notes ADD COLUMN size AS (length(title)) CHECK (size > 0)",
         "SELECT size FROM notes WHERE id = 3"], [(5,)]),
    "drop table": Story([_NOTES, "DROP TABLE notes", "DROP TABLE IF EXISTS notes", _NOTES, "SELECT 1"], [(1,)]),
    "create table as": Story(
        [_NOTES, _THREE, "CREATE TABLE copy AS SELECT title, stars FROM notes", "SELECT count(*) FROM copy"], [(3,)]),
    "full text": Story(
        ["CREATE VIRTUAL TABLE ft USING fts5(title, body, tokenize = 'porter unicode61')",
         "INSERT INTO ft VALUES ('foxes', 'they were running')",
         "SELECT highlight(ft, 1, '[', ']') FROM ft WHERE ft MATCH 'run AND fox' ORDER BY rank"],
        [("they were [running]",)]),
    "full text beside a table": Story(
        [_NOTES, "CREATE VIRTUAL TABLE ft USING fts5(title, body, content='notes', content_rowid='id')",
         "CREATE TRIGGER ai AFTER INSERT ON notes BEGIN"
         " INSERT INTO ft (rowid, title, body) VALUES (new.id, new.title, new.body); END",
         _THREE, "SELECT rowid, snippet(ft, 1, '<', '>', '', 8), bm25(ft) < 0 FROM ft('blue')"],
        [(2, "a <blue> fox", 1)]),
    "full text commands": Story(
        ["CREATE VIRTUAL TABLE ft USING fts5(a, prefix='2 3')", "INSERT INTO ft VALUES ('hello world')",
         "INSERT INTO ft(ft) VALUES ('optimize')", "INSERT INTO ft(ft) VALUES ('rebuild')",
         "INSERT INTO ft(ft) VALUES ('integrity-check')", "SELECT a FROM ft('hel*')"], [("hello world",)]),
    "full text by trigrams": Story(
        ["CREATE VIRTUAL TABLE ft USING fts5(a, tokenize='trigram')", "INSERT INTO ft VALUES ('hello world')",
         "SELECT a FROM ft WHERE a LIKE '%lo wo%'"], [("hello world",)]),
    "full text dropped": Story(
        ["CREATE VIRTUAL TABLE ft USING fts5(a)", "DROP TABLE ft", "SELECT count(*) FROM sqlite_master"], [(0,)]),
    "a common table expression": Story(
        [_NOTES, _THREE, "WITH best AS (SELECT * FROM notes WHERE stars > 1), n AS (SELECT count(*) AS c FROM best)"
         " SELECT title, c FROM best, n ORDER BY title"], [("three", 2), ("two", 2)]),
    "a recursive one": Story(
        ["CREATE TABLE tree (id, parent)", "INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2)",
         "WITH RECURSIVE up(id, depth) AS (SELECT id, 0 FROM tree WHERE parent IS NULL UNION ALL"
         " SELECT tree.id, depth + 1 FROM tree JOIN up ON tree.parent = up.id) SELECT max(depth) FROM up"], [(2,)]),
    "an expression with a delete": Story(
        [_NOTES, _THREE, "WITH old AS (SELECT id FROM notes WHERE stars < 3) DELETE FROM notes WHERE id IN old",
         "SELECT title FROM notes"], [("three",)]),
    "window functions": Story(
        [_NOTES, _THREE, "SELECT title, rank() OVER (ORDER BY stars DESC), sum(stars) OVER (ORDER BY id) FROM notes"
         " ORDER BY id"], [("one", 3, 1), ("two", 2, 3), ("three", 1, 6)]),
    "joins": Story(
        [_NOTES, _THREE, "SELECT a.title, b.title FROM notes a LEFT JOIN notes b ON b.id = a.id + 1 ORDER BY a.id"],
        [("one", "two"), ("two", "three"), ("three", None)]),
    "a full outer join": Story(
        ["CREATE TABLE a (x)", "CREATE TABLE b (x)", "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)",
         "SELECT a.x, b.x FROM a FULL JOIN b USING (x) ORDER BY 1"], [(None, 2), (1, None)]),
    "groups": Story(
        [_NOTES, _THREE, "SELECT stars % 2 AS odd, count(*), avg(stars) FROM notes GROUP BY odd HAVING count(*) > 1"],
        [(1, 2, 2.0)]),
    "compound selects": Story(["SELECT 1 UNION SELECT 2 EXCEPT SELECT 1 UNION ALL SELECT 3 ORDER BY 1"], [(2,), (3,)]),
    "values": Story(["VALUES (1, 'a'), (2, 'b')"], [(1, "a"), (2, "b")]),
    "a table on the right of IN": Story(
        [_NOTES, _THREE, "CREATE TABLE wanted (id)", "INSERT INTO wanted VALUES (2)",
         "SELECT title FROM notes WHERE id IN wanted"], [("two",)]),
    "json": Story(
        ["CREATE TABLE d (doc)", """INSERT INTO d VALUES ('{"a": {"b": [1, 2]}, "tags": ["x", "y"]}')""",
         "SELECT doc ->> '$.a.b[1]', json_extract(doc, '$.tags[#-1]'), json_array_length(doc, '$.tags') FROM d"],
        [(2, "y", 2)]),
    "json as rows": Story(
        ["SELECT key, value FROM json_each('[\"a\", \"b\"]')"], [(0, "a"), (1, "b")]),
    "json made and merged": Story(
        ["SELECT json_patch('{\"a\": 1}', '{\"b\": 2}'), json_object('k', json('[1]')), json_group_array(value)"
         " FROM json_tree('[1]') WHERE atom"], [('{"a":1,"b":2}', '{"k":[1]}', "[1]")]),
    "an index on json": Story(
        ["CREATE TABLE d (doc)", "CREATE INDEX by_kind ON d (doc ->> 'kind')",
         "INSERT INTO d VALUES ('{\"kind\": \"x\"}')", "SELECT count(*) FROM d WHERE doc ->> 'kind' = 'x'"], [(1,)]),
    "text functions": Story(
        ["SELECT upper('a') || lower('B'), substr('hello', 2, 3), replace('aXa', 'X', '-'), trim('  x '),"
         " trim('xyhix', 'xy'), instr('hello', 'l'), printf('%05.1f', 3.14159), length('ñandú'), hex('a')"],
        [("Ab", "ell", "a-a", "x", "hi", 3, "003.1", 5, "61")]),
    "text functions of nothing and of bytes": Story(
        ["SELECT instr(NULL, 'a'), replace(x'6162', 'b', 'c'), instr(x'0001', x'01'), trim(12321, 1), ltrim('a', '')"],
        [(None, "ac", 2, "232", "a")]),
    "dates": Story(
        ["SELECT date('2024-02-28', '+2 days'), strftime('%H:%M', '2024-01-01 13:45'), unixepoch('1970-01-02')"],
        [("2024-03-01", "13:45", 86400)]),
    "patterns": Story(["SELECT 'Hello' LIKE 'h%', 'Hello' GLOB 'H*', 'a_b' LIKE 'a\\_b' ESCAPE '\\'"], [(1, 1, 1)]),
    "conditions": Story(
        ["SELECT CASE WHEN 1 THEN 'a' ELSE 'b' END, iif(0, 1, 2), coalesce(NULL, 3), nullif(1, 1), max(1, 2)"],
        [("a", 2, 3, None, 2)]),
    "arithmetic": Story(["SELECT round(pow(2, 0.5), 3), 7 / 2, 7 % 2, 1 << 4"], [(1.414, 3, 1, 16)]),
    "odd names": Story(
        ['CREATE TABLE "order by" ("group", [select], `from`)', 'INSERT INTO "order by" VALUES (1, 2, 3)',
         'SELECT "group", [select], `from` FROM "order by"'], [(1, 2, 3)]),
    "names in other scripts": Story(
        ['CREATE TABLE "日記" ("größe" TEXT)', "INSERT INTO 日記 VALUES ('🦊')", "SELECT größe FROM 日記"], [("🦊",)]),
    "a table called plugin_settings": Story(
        ["CREATE TABLE plugin_settings (a)", "INSERT INTO plugin_settings VALUES (1)", "SELECT * FROM plugin_settings"],
        [(1,)]),
    "what tables there are": Story(
        [_NOTES, "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'notes'"], [("notes",)]),
    "statistics": Story([_NOTES, _THREE, "ANALYZE", "REINDEX notes", "SELECT count(*) > 0 FROM sqlite_stat1"], [(1,)]),
    "a long insert": Story(
        ["CREATE TABLE n (a, b, c)",
         "INSERT INTO n VALUES " + ", ".join(f"({i}, 'row {i}', {i / 2})" for i in range(1_000)),
         "SELECT count(*), max(a) FROM n"], [(1_000, 999)]),
    "large values": Story(
        ["CREATE TABLE n (a)", "INSERT INTO n VALUES (randomblob(500000)), (hex(zeroblob(200000)))",
         "SELECT sum(length(a)) FROM n"], [(900_000,)]),
}  # fmt: skip
