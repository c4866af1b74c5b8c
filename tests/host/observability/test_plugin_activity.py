"""What calls come to over time: which span is shown, what counts as failed, how long answers took, how far we look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from fixtures.ledger_rows import insert_row
from paddock.console.pages.plugins.charts import (
    CHART_HEIGHT_UNITS,
    CHART_WIDTH_UNITS,
    calls_chart,
    duration_text,
    latency_chart,
    size_text,
)
from paddock.host.plugins.activity import summarize_calls
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.entries import EndedCall, EndedCalls, list_ended_calls
from paddock.store.database import open_database

NOW = datetime(2030, 1, 15, 12, 0, tzinfo=UTC)


def call(ago: timedelta, status: str = "succeeded", took_ms: float = 10.0) -> EndedCall:
    return EndedCall((NOW - ago).isoformat(), status, status == "succeeded", took_ms)


def test_the_span_is_a_day_or_as_much_less_as_shows_the_same_or_more_where_a_day_is_empty() -> None:
    minute, hours, days = timedelta(minutes=1), timedelta(hours=5), timedelta(days=5)

    def span(*calls: EndedCall, since: timedelta | None = None) -> str:
        return summarize_calls(EndedCalls(list(calls), (NOW - since).isoformat() if since else None), NOW).span.words

    assert span() == "24 hours"
    assert span(call(minute)) == "10 minutes"
    assert span(call(minute), call(hours)) == "24 hours"
    assert span(call(days)) == "two weeks"
    assert span(call(minute), call(hours), since=hours) == "hour"  # of the rest of the day nobody knows
    assert span(call(minute), since=timedelta(seconds=90)) == "10 minutes"


def test_what_was_denied_is_no_failure_of_the_plugin_and_what_waits_is_not_over() -> None:
    ago = timedelta(minutes=2)
    became = ("succeeded", "failed", "in_doubt", "timed_out", "denied", "refused", "cancelled", "pending_approval")

    found = summarize_calls(EndedCalls([call(ago, status) for status in became], None), NOW)

    part = next(one for one in found.parts if one.calls)
    assert (part.succeeded, part.failed, part.rejected) == (1, 3, 3)
    assert (found.calls, found.failed) == (7, 3)


def test_times_are_of_answers_alone() -> None:
    ago = timedelta(minutes=2)
    calls = [call(ago, took_ms=float(number)) for number in range(1, 101)]

    found = summarize_calls(EndedCalls([*calls, call(ago, "failed", 9_999.0)], None), NOW)

    assert (found.median_ms, found.slow_ms) == (50.0, 95.0)
    assert summarize_calls(EndedCalls([call(ago, "failed")], None), NOW).median_ms is None


def test_pictures_stay_in_their_frame_and_show_one_failure_among_thousands() -> None:
    ago = timedelta(minutes=2)
    calls = [call(ago) for _ in range(3_000)] + [call(ago, "failed"), call(timedelta(minutes=9))]
    activity = summarize_calls(EndedCalls(calls, None), NOW)

    chart = calls_chart(activity)
    bars = [bar for column in chart.columns for bar in column.bars]
    lines = latency_chart(activity).lines

    assert all(one.x >= 0 and one.x + one.width <= CHART_WIDTH_UNITS for one in bars)
    assert all(one.y >= 0 and one.y + one.height <= CHART_HEIGHT_UNITS for one in bars)
    assert [one.height >= 1 for one in bars if one.kind == "failed"] == [True]
    assert "3,001 calls, 1 failed" in next(one.words for one in chart.columns if len(one.bars) > 1)
    assert [len(one.dots) for one in lines] == [2, 2]  # two times, far from each other
    assert calls_chart(summarize_calls(EndedCalls([], None), NOW)).top == ""  # of nothing there is no axis


def test_times_and_sizes_are_told_as_people_say_them() -> None:
    assert [duration_text(one) for one in (None, 0.4, 12.3, 1_500.0, 90_000.0)] == [
        "–",
        "under 1 ms",
        "12 ms",
        "1.5 s",
        "1.5 min",
    ]
    assert [size_text(one) for one in (None, 2_048, 6 << 20)] == ["–", "2 KiB", "6 MiB"]


async def test_looking_stops_after_so_many_entries_whatever_they_are(tmp_path: Path) -> None:
    facts = '{"duration_ms":5.0,"status":"succeeded","success":true}'
    async with open_database(tmp_path / "store.db") as database:
        for number in range(1, 21):
            at = (NOW + timedelta(seconds=number)).isoformat()
            kind = "call.ended" if number % 2 else "plugin.notification"
            plugin = "other" if number > 16 else "p"
            row = SealedEntry(
                "default", number, f"e{number}", at, kind, plugin, None, None, None, facts, None, None, None, b""
            )
            await database.write(lambda tx, row=row: insert_row(tx, row))

        found = await database.read(lambda tx: list_ended_calls(tx, "default", "p", max_scanned=6))
        everything = await database.read(lambda tx: list_ended_calls(tx, "default", "p"))

    assert ([one.at for one in found.calls], found.since) == (
        [(NOW + timedelta(seconds=number)).isoformat() for number in (15, 13, 11)],
        (NOW + timedelta(seconds=11)).isoformat(),
    )
    assert (len(everything.calls), everything.since) == (8, None)
