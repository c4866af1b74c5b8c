"""Words for whoever may have stopped reading: nobody waits for them, and what is lost is counted."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import TextIO

import pytest

from paddock.daemon.nonblocking_writer import open_nonblocking_writer


@pytest.fixture
def pipe() -> Generator[tuple[TextIO, TextIO], None, None]:
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as reader, os.fdopen(writing, "w", encoding="utf-8") as writer:
        yield reader, writer


def lost(count: int) -> str:
    return f"{count} lost"


def test_what_is_said_is_written_in_its_order_and_all_of_it_when_the_outlet_closes(
    pipe: tuple[TextIO, TextIO],
) -> None:
    reader, writer = pipe
    with open_nonblocking_writer(writer, lost) as outlet:
        for number in range(1_000):
            outlet.write_line(f"{number} ✓")
        outlet.flush(10)
        assert [reader.readline() for _ in range(1_000)] == [f"{number} ✓\n" for number in range(1_000)]
        outlet.write_line("the end")
    assert reader.readline() == "the end\n"


def test_nobody_waits_for_a_reader_that_stops_and_when_it_goes_on_it_is_told_how_much_it_missed(
    pipe: tuple[TextIO, TextIO],
) -> None:
    reader, writer = pipe
    with open_nonblocking_writer(writer, lost, max_bytes=64 * 1024) as outlet:
        began = time.monotonic()
        for number in range(20_000):
            outlet.write_line(f"{number} " + "x" * 100)
        assert time.monotonic() - began < 5, "it waits for the reader"
        upcoming = 0
        while upcoming < 20_000:
            first, second = reader.readline().split()
            assert second == "lost" or int(first) == upcoming, "a line is missing, and nothing says so"
            upcoming += int(first) if second == "lost" else 1
        outlet.write_line("new words")
        assert reader.readline() == "new words\n"


def test_a_line_that_is_too_long_is_lost_and_the_next_is_said(pipe: tuple[TextIO, TextIO]) -> None:
    reader, writer = pipe
    with open_nonblocking_writer(writer, lost, max_bytes=1_000) as outlet:
        outlet.write_line("x" * 2_000)
        assert reader.readline() == "1 lost\n"
        outlet.write_line("short")
        assert reader.readline() == "short\n"


def test_closing_does_not_wait_for_a_reader_that_never_comes_back(pipe: tuple[TextIO, TextIO]) -> None:
    _, writer = pipe
    began = time.monotonic()
    with open_nonblocking_writer(writer, lost) as outlet:
        outlet.write_line("x" * 500_000)
        outlet.flush(0.1)
    assert time.monotonic() - began < 5


def test_a_reader_that_is_gone_and_a_terminal_that_does_not_wait_hold_nobody_up(pipe: tuple[TextIO, TextIO]) -> None:
    reader, writer = pipe
    os.set_blocking(writer.fileno(), False)
    with open_nonblocking_writer(writer, lost) as outlet:
        outlet.write_line("x" * 200_000)
        assert reader.readline() == "x" * 200_000 + "\n"
        reader.close()
        outlet.write_line("nobody")
        outlet.flush(10)
        outlet.write_line("still nobody")
