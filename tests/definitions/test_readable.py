"""How definitions differ, in lines that people read and in a time that no server decides."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.definitions.listings import fine, tool

from fixtures.shelves import Shelf
from paddock.core.ids import DEFAULT_TENANT
from paddock.plugins.tool_pinning.accept import review_definitions
from paddock.plugins.tool_pinning.normalize import normalize_definitions
from paddock.plugins.tool_pinning.record import record_listing
from paddock.plugins.tool_pinning.render import diff_lines


def written(value: Any) -> str:
    return json.dumps(value)


def test_only_what_changed_is_shown_with_a_little_around_it() -> None:
    old, new = list(range(100)), list(range(100))
    new[10] = new[80] = 1_000

    assert [line.split(",")[0] for line in diff_lines(written(old), written(new))] == [
        *("   8", "   9", "-  10", "+  1000", "   11", "   12"),
        "  …",
        *("   78", "   79", "-  80", "+  1000", "   81", "   82"),
    ]


def test_what_is_the_same_has_no_difference_and_what_is_new_is_all_of_it() -> None:
    assert diff_lines(written([1]), written([1])) == []
    assert diff_lines(None, written([1])) == ["+[", "+  1", "+]"]


LINES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=60)


@given(LINES, LINES)
def test_the_lines_that_are_gone_and_new_are_those_of_the_two(old: list[str], new: list[str]) -> None:
    lines = diff_lines(written({"x": old}), written({"x": new}))

    before = [line[1:].strip(" ,") for line in lines if line[0] in "- " and line != "  …"]
    after = [line[1:].strip(" ,") for line in lines if line[0] in "+ " and line != "  …"]
    for letter in "abc":
        shown = after.count(f'"{letter}"') - before.count(f'"{letter}"')
        assert shown == new.count(letter) - old.count(letter)


def test_a_hundred_definitions_that_are_hard_to_compare_hold_nobody_up(shelf: Shelf) -> None:
    def listing(shape: list[str]) -> list[Any]:
        return [tool(f"t{number}", x=shape) for number in range(100)]

    shelf.install()
    normalized = normalize_definitions(listing((["a"] * 3 + ["b"]) * 196), fine)
    record_listing(shelf.plugins, DEFAULT_TENANT, "notes", normalized, digest="sha256:1")
    began = time.thread_time()
    normalized = normalize_definitions(listing((["a"] * 2 + ["b"]) * 61), fine)
    record_listing(shelf.plugins, DEFAULT_TENANT, "notes", normalized, digest="sha256:1")
    shown = review_definitions(shelf.plugins, "notes")

    assert time.thread_time() - began < 8, "it took forty seconds when lines were compared one by one"
    assert len(shown) == 100 and all(one.difference for one in shown)
    told = [event.data["difference"] for event in shelf.events("notes") if event.type == "plugin.definition_changed"]
    assert len(told) == 100 and any(told)
