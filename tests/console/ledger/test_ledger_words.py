"""What the pages of ledger, calls and home say, without a page: filters, timelines, files, verdicts, results."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from paddock.console.pages.calls.timeline import Timeline, draw_timeline
from paddock.console.pages.home.home import MAX_UNWELL, split_plugins, summarize_home
from paddock.console.pages.ledger.export import CSV_HEADER, csv_lines, json_lines
from paddock.console.pages.ledger.filters import entry_type_options, parse_filters, parse_seq
from paddock.console.pages.ledger.lifecycle_runs import collapse_runs
from paddock.console.pages.ledger.verify import build_verdict_text
from paddock.console.text.call_text import drop_repeats, event_text, latest_progress, preview_result
from paddock.console.text.plugin_text import PluginSeverity, PluginSummary
from paddock.host.explain.call_spans import build_spans
from paddock.ledger.chain.verifier import ChainFinding
from paddock.ledger.entry import LedgerEntry


def entry(seq: int, kind: str, at: str, facts: dict[str, Any] | None = None, **personal: Any) -> LedgerEntry:
    whole = {"name": "notes", "method": "add", **(facts or {})}
    name = f"evt_{seq}"
    return LedgerEntry(
        "default", seq, name, f"2030-01-31T{at}+00:00", kind, "notes", "call_1", None, whole, personal, False, "h"
    )


# --- which entries ----------------------------------------------------------------------------------------------------


def test_an_address_says_which_entries_and_is_made_again_with_them() -> None:
    filters = parse_filters(
        {"wrong": "yes", "type": "calls", "plugin": " notes ", "since": "2030-01-31T08:00", "x": "y"}
    )

    assert filters.entry_filter.wrong
    assert "call.ended" in filters.entry_filter.types
    assert (filters.entry_filter.plugin, filters.entry_filter.since) == ("notes", "2030-01-31T08:00:00+00:00")
    assert filters.address(before=7) == "/ledger?wrong=1&type=calls&plugin=notes&since=2030-01-31T08%3A00&before=7"
    assert filters.address(wrong=None, since=None) == "/ledger?type=calls&plugin=notes"
    assert parse_filters({}).address() == "/ledger"
    assert not parse_filters({}).narrowed


def test_what_is_no_time_is_said_at_its_field_and_stays_there() -> None:
    filters = parse_filters({"since": "soon", "until": "2030-01-31"})

    assert list(filters.mistakes) == ["since"]
    assert (filters.given["since"], filters.entry_filter.since) == ("soon", None)


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("", None), ("-1", None), ("x", None), ("٣", None), ("9" * 25, None)]
)
def test_only_a_number_is_where_a_page_begins(text: str, number: int | None) -> None:
    assert parse_seq({"before": text}, "before") == number


def test_types_are_chosen_by_groups_that_have_entries_and_what_is_chosen_is_among_them() -> None:
    found = entry_type_options(["call.ended", "plugin.crashed"], "plugin.hook.*")

    assert [name for name, _, _ in found] == ["calls", "running", ""]
    assert [choice.label for _, _, several in found for choice in several] == ["Call ended", "Crashed", "plugin.hook.*"]


# --- one call ---------------------------------------------------------------------------------------------------------


def drawn(
    entries: list[LedgerEntry], altered: tuple[str, ...] = (), now: str = "2030-01-31T10:00:00+00:00"
) -> Timeline:
    spans = build_spans(entries, altered, {}, now)
    first = min((span.begin for span in spans), default=0)
    return draw_timeline([span.to_json(first) for span in spans])


@pytest.mark.req("B-18", "page of a call")
def test_a_timeline_has_an_axis_in_real_units_and_breaks_a_long_wait() -> None:
    entries = [
        entry(1, "approval.requested", "08:00:00.000000", {"approval": "apr_1"}, requester="user:ann"),
        entry(2, "approval.answered", "09:00:00.000000", {"approval": "apr_1", "approved": True, "state": "approved"}),
        entry(3, "plugin.fetched", "09:00:00.060000", {"duration_ms": 20.0, "host": "h", "status": 200}),
        entry(4, "call.ended", "09:00:00.100000", {"duration_ms": 100.0, "status": "succeeded", "success": True}),
    ]
    timeline = drawn(entries, ("evt_3",))

    assert [(bar.span["entry"], bar.span["kind"]) for bar in timeline.bars] == [
        ("evt_1", "waited"), ("evt_4", "ran"), ("evt_2", "moment"), ("evt_3", "ran")
    ]  # fmt: skip
    wait, ran, _, fetched = timeline.bars
    (shortened,) = timeline.breaks
    assert (wait.left, wait.took, shortened.label) == (0.0, "1 h 0 min", "1 h 0 min")
    assert wait.width == shortened.width < 10
    assert ran.width == pytest.approx(100 - shortened.width, abs=0.1)
    assert fetched.left == pytest.approx(ran.left + ran.width * 0.4, abs=0.1)
    assert fetched.span["severity"] == "bad"
    assert len(timeline.ticks) >= 3
    assert all(0 <= bar.left <= bar.left + bar.width <= 100.01 for bar in timeline.bars)


def test_what_still_waits_goes_on_until_now_and_odd_times_break_nothing() -> None:
    waits = drawn([entry(1, "approval.requested", "08:00:00.000000")], now="2030-01-31T08:00:05+00:00")
    odd = drawn([entry(1, "call.ended", "no time", {"duration_ms": "long"})], now="never")

    assert waits.bars[0].took == "5.0 s"
    assert odd.bars[0].width > 0
    assert drawn([], now="").bars == ()


# --- files ------------------------------------------------------------------------------------------------------------


def test_lines_are_whole_entries_and_no_cell_is_a_formula() -> None:
    evil = entry(1, "plugin.audited", "08:00:00", {"name": "=HYPERLINK(1)"}, action='-2+3"\n', principal="@ann")
    lines = json_lines([evil, evil]).decode().splitlines()
    rows = list(csv.reader(io.StringIO((CSV_HEADER + csv_lines([evil], {})).decode())))

    assert [json.loads(line)["facts"]["name"] for line in lines] == ["=HYPERLINK(1)"] * 2
    assert len(rows) == 2
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in rows[1])


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_verdict_says_what_it_means_and_what_to_do() -> None:
    sound = build_verdict_text(ChainFinding("default", "sound", rows=1_200, checkpoints=2, signed_to=1_000, erased=1))
    bad = build_verdict_text(ChainFinding("default", "tampered", "the row is not what its hash says", 7, "evt_7"))

    assert (sound.mood, sound.what) == ("good", "")
    assert sound.notes[0] == "1,200 entries and 2 checkpoints were checked."
    assert "200 entries since the last checkpoint" in sound.notes[1]
    assert bad.mood == "bad"
    assert bad.what == "Entry 7: the row is not what its hash says"
    assert "Keep a copy" in bad.next
    assert build_verdict_text(ChainFinding("default", "sound")).title == "Nothing was recorded yet"
    assert build_verdict_text(ChainFinding("default", "unreadable", "no")).mood == "busy"


# --- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "share"),
    [
        ({"progress": 3, "total": 10}, "3 of 10"),
        ({"progress": 30, "total": 10}, "10 of 10"),
        ({"progress": 1_500}, "1,500"),
        ({"progress": 1, "total": 0}, "1"),
        ({"progress": -4, "total": 8}, "0 of 8"),
    ],
)
def test_progress_is_a_share_of_something(event: dict[str, Any], share: str) -> None:
    found = latest_progress([{"type": "progress", **event}, {"type": "partial", "data": 1}])

    assert found is not None
    assert found.share == share


@pytest.mark.parametrize("done", [None, "3", True, float("nan"), float("inf"), [], 1e300])
def test_what_is_no_number_is_no_progress(done: Any) -> None:
    assert latest_progress([{"type": "progress", "progress": done}]) is None


def test_what_a_plugin_tells_is_one_bounded_line_each_and_repeats_are_told_once() -> None:
    assert event_text({"type": "progress", "progress": 1, "total": 3, "message": "reading"}) == "1/3 reading"
    assert event_text({"type": "log", "message": "x" * 9_000})[-1] == "…"
    assert event_text({"type": "odd", "data": {"a": 1}}) == '{"a": 1}'
    assert drop_repeats([(1, "a"), (2, "a"), (3, ""), (4, "b")]) == [(1, "a"), (4, "b")]


def test_a_short_result_is_read_at_a_glance() -> None:
    def rows(result: Any) -> Any:
        found = preview_result(result)
        return None if found is None else (found.rows or found.text, found.whole)

    assert rows(42) == ("42", True)
    assert rows(True) == ("Yes", True)
    assert rows("hello") == ("hello", True)
    assert rows({"said": "hi", "times": 1_000}) == ((("said", "hi"), ("times", "1,000")), True)
    assert rows({"said": "hi", "more": {"deep": 1}}) == ((("said", "hi"),), False)
    assert rows(["a", "b"]) == ((("1", "a"), ("2", "b")), True)
    assert rows({"content": [{"type": "text", "text": "painted"}]}) == ("painted", False)
    assert rows({"content": [{"type": "image", "data": "x"}]}) is None
    assert rows({str(number): number for number in range(100)}) is None
    assert rows("x" * 10_000) is None


# --- home -------------------------------------------------------------------------------------------------------------


def plugin(name: str, mood: PluginSeverity = "good") -> PluginSummary:
    return PluginSummary(name, "1.0.0", "", "Running", mood, "", "")


def test_the_first_line_says_what_needs_somebody_before_anything_else() -> None:
    def heading(plugins: list[PluginSummary], needs: int = 0) -> str:
        return summarize_home(plugins, needs=needs, running=1, operates=True).heading

    some = [plugin("a"), plugin("b", "calm")]
    assert heading(some) == "All is well"
    assert heading(some, needs=1) == "1 thing needs you"
    assert heading([], needs=3) == "3 things need you"
    assert heading([]) == "Welcome to Paddock"
    line = summarize_home(some, needs=0, running=1, operates=True).line
    assert line == "2 plugins, 1 running · 1 call under way"


def test_of_very_many_plugins_those_in_trouble_are_shown_and_the_healthy_ones_counted() -> None:
    crashed = [plugin(f"z{number:02}", "bad") for number in range(MAX_UNWELL + 1)]
    healthy, unwell, left_out = split_plugins([plugin(f"p{number:03}") for number in range(200)] + crashed)

    assert (len(healthy), len(unwell), left_out) == (200, MAX_UNWELL, 1)
    assert unwell[0].name == "z00"


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_plugin_that_only_started_and_stopped_is_one_row_and_a_failure_is_never_in_it() -> None:
    def row(seq: int, kind: str, mood: str = "calm", plugin: str = "notes") -> dict[str, Any]:
        return {"seq": seq, "type": f"plugin.{kind}", "mood": mood, "plugin": plugin, "sentence": f"{kind} {seq}"}

    cycle = [row(number, kind) for number, kind in enumerate(("spawned", "initialized", "stopped") * 14)]
    rows = collapse_runs([*cycle, row(50, "crashed", "bad"), row(51, "spawned"), row(52, "stopped", plugin="mail")])

    assert [one["sentence"] for one in rows] == [
        "notes started and stopped 14 times", "crashed 50", "spawned 51", "stopped 52"
    ]  # fmt: skip
    assert len(rows[0]["run"]) == 42
    assert rows[0]["mood"] == "calm"
    assert [one["run"] for one in rows[1:]] == [[], [], []]


def test_a_plugin_that_crashes_again_and_again_is_one_row_that_says_so() -> None:
    def row(seq: int, kind: str, mood: str = "calm") -> dict[str, Any]:
        return {"seq": seq, "type": f"plugin.{kind}", "mood": mood, "plugin": "clock", "sentence": f"{kind} {seq}"}

    again = [row(3 * number, "crashed", "bad") for number in range(3)]
    cycle = [entry for crash in again for entry in (crash, row(crash["seq"] + 1, "initialized"), row(0, "spawned"))]
    rows = collapse_runs([row(100, "failed", "bad"), *cycle])

    assert [one["sentence"] for one in rows] == [
        "failed 100", "clock crashed 3 times, started 3 times, was ready 3 times"
    ]  # fmt: skip
    assert (rows[1]["mood"], len(rows[1]["run"])) == ("bad", 9)
