"""What plugins write to their standard error: the last fifty lines are kept, a flood is cut, calls go on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.paced_loop import paced
from tests.runtime.stage import Stage
from tests.runtime.witness import fallen, on_call

from paddock.core.errors import Unavailable
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.stderr_tail import MAX_BYTES_PER_S, MAX_LINE_BYTES, StderrTail

CUT = "[more was written than is kept; lines are missing here]"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


def tail() -> tuple[StderrTail, list[str]]:
    lines: list[str] = []
    return StderrTail(lines.append), lines


@pytest.mark.usefixtures("bystander")
async def test_the_last_fifty_lines_of_a_plugin_that_crashed_are_told_with_the_crash(stage: Stage) -> None:
    actor = stage.actor(
        on_call('for n in range(200): os.write(2, b"line %d\\n" % n)', 'os.write(2, b"end"); os._exit(1)')
    )
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    status, crashed = await fallen(actor)
    assert crashed.last_stderr == (*(f"line {number}" for number in range(151, 200)), "end")
    assert "its last log line: end" in status.reason
    assert stage.audience.lines[-201:] == [*(f"line {number}" for number in range(200)), "end"]


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_floods_its_log_loses_lines_and_still_answers(stage: Stage) -> None:
    actor = stage.actor(on_call('for _ in range(1000): os.write(2, b"spam " * 2000 + b"\\n")', 'return {"done": True}'))
    assert await actor.call("do.it") == {"done": True}
    assert CUT in stage.audience.lines
    assert sum(map(len, stage.audience.lines)) < 5_000_000
    assert actor.status.state is PluginState.RUNNING


@pytest.mark.usefixtures("bystander")
async def test_bytes_that_are_no_text_are_shown_as_far_as_they_are(stage: Stage) -> None:
    actor = stage.actor(on_call('os.write(2, b"caf\\xc3\\xa9 \\xff\\x00\\r\\n")', 'return {"done": True}'))
    assert await actor.call("do.it") == {"done": True}
    await stage.audience.until(lambda: "café �\x00" in stage.audience.lines)


LINES = st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=20), max_size=80)


@given(lines=LINES, cuts=st.lists(st.integers(1, 40), max_size=40))
def test_the_same_lines_are_kept_however_the_stream_is_cut(lines: list[str], cuts: list[int]) -> None:
    whole = "".join(f"{line}\n" for line in lines).encode()
    kept, passed_on = tail()
    at = 0
    for size in [*cuts, len(whole) or 1]:
        kept.feed(whole[at : at + size], now=0.0)
        at += size
    kept.end()
    assert passed_on == lines
    assert kept.lines == tuple(lines[-50:])


def test_a_line_without_end_is_cut_into_pieces_that_are_kept() -> None:
    kept, passed_on = tail()
    kept.feed(b"x" * (MAX_LINE_BYTES + 1), now=0.0)
    kept.feed(b"and more", now=0.0)
    assert passed_on == ["x" * MAX_LINE_BYTES]
    assert kept.lines == ("x" * MAX_LINE_BYTES, "and more")


def test_more_than_a_second_holds_is_cut_once_and_the_next_second_is_heard_again() -> None:
    kept, passed_on = tail()
    kept.feed(b"first\n", now=0.0)
    for _ in range(3):
        kept.feed(b"y" * MAX_BYTES_PER_S, now=0.5)
    kept.feed(b"later\n", now=1.5)
    assert passed_on == ["first", CUT, "later"]
