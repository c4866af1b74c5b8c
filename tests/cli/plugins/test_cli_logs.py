"""What `paddock plugin logs` makes of the lines that a plugin wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.commands import Paddock
from fixtures.prepared_homes import enabled_parrot, prepare_home
from paddock.host.plugins.logs.log_lines import expand_record, format_for_terminal

RECORD = {"time": "2026-01-31T12:00:00.000Z", "level": "info", "plugin": "parrot", "message": "noted it"}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("a plain line", ["a plain line"], id="plain"),
        pytest.param("red \x1b[31m", ["red \\x1b[31m"], id="an escape sequence"),
        pytest.param(json.dumps(RECORD), ["info noted it"], id="a record"),
        pytest.param(
            json.dumps({"count": 3, "who": "a b", "file": "/x", "none": None, **RECORD}),
            ['info noted it count=3 who="a b" file=/x none=null'],
            id="its fields",
        ),
        pytest.param(
            json.dumps({**RECORD, "level": "error", "traceback": 'Traceback:\n  File "x", line 1\nOops: \x1b[31m\n'}),
            ["error noted it", "Traceback:", '  File "x", line 1', "Oops: \\x1b[31m"],
            id="a traceback",
        ),
        pytest.param('{"message": "mine"}', ['{"message": "mine"}'], id="a record of somebody else"),
        pytest.param('{"level": ["info"], "message": "x"}', ['{"level": ["info"], "message": "x"}'], id="an odd level"),
        pytest.param("{broken", ["{broken"], id="no JSON"),
        pytest.param("", [""], id="nothing"),
    ],
)
def test_a_record_of_the_sdk_is_shown_in_words_and_anything_else_as_it_is(written: str, shown: list[str]) -> None:
    assert format_for_terminal(written) == shown


json_values = st.recursive(st.none() | st.floats() | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3))


@given(st.text(max_size=200) | st.dictionaries(st.text(max_size=9), json_values).map(lambda x: json.dumps(RECORD | x)))
def test_whatever_a_plugin_writes_nothing_of_it_can_move_the_cursor(written: str) -> None:
    assert all(line.isprintable() for line in format_for_terminal(written))


@pytest.mark.parametrize("depth", [10, 960, 980, 990, 900_000])
def test_a_value_may_nest_as_deep_as_it_likes(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    assert len(format_for_terminal(json.dumps(RECORD)[:-1] + f', "deep": {nested}}}')) == 1


@pytest.mark.parametrize("odd", ["a plain line", '{"message": "mine"}', "[" * 900, "deep", "NaN", "1e999"])
def test_a_line_that_is_no_record_or_could_not_be_written_again_is_told_as_it_is(odd: str) -> None:
    values = {"deep": "[" * 900 + "]" * 900, "NaN": "NaN", "1e999": "1e999"}
    line = json.dumps(RECORD)[:-1] + f', "odd": {values[odd]}}}' if odd in values else odd

    assert expand_record({"at": "now", "line": line}) == {"at": "now", "line": line}


@pytest.mark.slow
def test_people_read_words_and_machines_the_line_as_it_was_written(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    prepare_home(paddock, enabled_parrot)
    paddock("call", "parrot.note", "-p", '{"text": "remember me"}')
    paddock("call", "parrot.burn", code=7)

    shown = paddock("plugin", "logs", "parrot").out.splitlines()
    told = paddock("plugin", "logs", "parrot", "--json").json["lines"]
    kept = [one["line"] for one in told]

    assert '  info noted text="remember me" request_id=req_' in shown[0]
    assert "  error a handler failed method=parrot.burn request_id=req_" in shown[1]
    assert shown[2] == "    Traceback (most recent call last):"
    assert shown[-1] == "    KeyError: 'seconds'"
    assert json.loads(kept[0])["text"] == "remember me"
    assert (told[0]["level"], told[0]["message"], told[0]["fields"]["text"]) == ("info", "noted", "remember me")
    assert told[1]["fields"]["traceback"].startswith("Traceback")
