"""The functions and built-in tables that a plugin's SQL may use, by name. What is not here is refused."""

from __future__ import annotations

_TEXT = """
    char concat concat_ws format glob hex instr length like lower ltrim octet_length printf quote replace rtrim substr
    substring trim unhex unicode unistr unistr_quote upper
"""
_NUMBERS = """
    abs acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 max min mod pi
    pow power radians random randomblob round sign sin sinh sqrt tan tanh trunc zeroblob
"""
_TIMES = "current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch"
_VALUES = "coalesce if ifnull iif likelihood likely nullif subtype typeof unlikely"
_GROUPS = """
    avg count cume_dist dense_rank first_value group_concat lag last_value lead median nth_value ntile percent_rank
    percentile percentile_cont percentile_disc rank row_number string_agg sum total
"""
# Without json_pretty, which indents by any text to any depth before it looks at how long the result has become.
_JSON = """
    -> ->> json json_array json_array_insert json_array_length json_error_position json_extract json_group_array
    json_group_object json_insert json_object json_patch json_quote json_remove json_replace json_set
    json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object
    jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set
"""
_FULL_TEXT = "bm25 fts5_get_locale fts5_insttoken fts5_locale highlight match snippet"
_CONNECTION = "changes last_insert_rowid sqlite_version total_changes"

FUNCTIONS = frozenset(f"{_TEXT} {_NUMBERS} {_TIMES} {_VALUES} {_GROUPS} {_JSON} {_FULL_TEXT} {_CONNECTION}".split())
SEARCHES = frozenset({"like", "glob"})  # cost a look through the whole text
SQUARES = frozenset({"json_patch", "jsonb_patch", "highlight", "snippet"})  # cost the square of what they get
WRITES_JSON = frozenset({"json_array", "json_object", "jsonb_array", "jsonb_object"})  # out of all they get at once
COLLECTS = frozenset({"json_group_array", "json_group_object", "jsonb_group_array", "jsonb_group_object"})

_OF_ALTER_TABLE = """
    sqlite_rename_table sqlite_rename_column sqlite_rename_test sqlite_rename_quotefix sqlite_drop_column
    sqlite_drop_constraint sqlite_fail sqlite_add_constraint sqlite_find_constraint
"""
WHILE_ALTERING = frozenset(_OF_ALTER_TABLE.split())  # called by ALTER TABLE itself, and unknown to anybody else

# Names that begin with sqlite_ belong to SQLite; of those, a plugin sees the ones that are about its own tables.
OWN_INTERNALS = frozenset({"sqlite_master", "sqlite_schema", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"})
MODULES = frozenset({"fts5"})

_BUILT_IN_TABLES = "dbstat carray fts3tokenize fts4aux bytecode tables_used completion generate_series zipfile"
BEHIND_THE_TABLES = frozenset(_BUILT_IN_TABLES.split())  # these look into pages, memory or the machine
