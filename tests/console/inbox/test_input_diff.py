"""The difference between inputs and an edited version of them, line by line."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from paddock.console.text.input_diff import compare_inputs


def lines_of(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    (difference,) = compare_inputs({"text": "\n".join(before)}, {"text": "\n".join(after)})
    return list(difference.lines)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abc", "axc", [("same", "a"), ("removed", "b"), ("added", "x"), ("same", "c")]),
        ("aa", "aaa", [("same", "a"), ("same", "a"), ("added", "a")]),
        ("abcd", "ad", [("same", "a"), ("removed", "b"), ("removed", "c"), ("same", "d")]),
        ("ab", "cd", [("removed", "a"), ("removed", "b"), ("added", "c"), ("added", "d")]),
        ("xaybz", "uavbw", None),
    ],
)
def test_every_line_is_the_same_removed_or_added(
    before: str, after: str, expected: list[tuple[str, str]] | None
) -> None:
    lines = lines_of(before, after)

    assert expected is None or lines == expected
    assert "".join(line for change, line in lines if change != "added") == before
    assert "".join(line for change, line in lines if change != "removed") == after


def test_inputs_that_are_made_to_be_slow_to_compare_do_not_hold_up_the_host() -> None:
    before = ["same"] * 1_000
    after = ["same" if number % 2 else f"other {number}" for number in range(1_000)]

    began = time.process_time()
    lines = lines_of(before, after)

    assert time.process_time() - began < 2  # it took ten times as long
    assert [line for change, line in lines if change != "added"] == before
    assert [line for change, line in lines if change != "removed"] == after
