"""Names for model providers: pure rules, held for whatever plugins are called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.mcp_server.tool_names import assign_names

ACCEPTED_BY_PROVIDERS = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
NAMES = st.text("ab._-/AB0é ", min_size=1, max_size=90)
OWNED = st.sets(st.tuples(NAMES, NAMES), max_size=12)


@pytest.mark.req("G-11", "named after the plugin")
def test_a_tool_is_called_after_its_plugin_and_itself() -> None:
    assert assign_names([("web", "search"), ("Email.Draft", "")], {}) == {
        ("web", "search"): "web__search",
        ("Email.Draft", ""): "Email_Draft",
    }


def test_a_name_that_was_chosen_is_taken_and_another_that_would_have_it_gives_way() -> None:
    names = assign_names([("web", "search"), ("other", "find")], {"web.search": "other__find"})
    assert names["web", "search"] == "other__find"
    assert names["other", "find"].startswith("other__find-")


def test_whoever_is_called_after_anothers_hash_takes_nothing_from_it() -> None:
    victims = {("web", "a.b"), ("web", "a_b"), ("web", "long" * 20)}
    before = assign_names(victims, {})
    thieves = {(name, "") for name in before.values()}
    after = assign_names(victims | thieves, {})
    assert {one: after[one] for one in victims} == before
    assert len(set(after.values())) == len(victims | thieves)


@given(OWNED)
def test_every_name_is_one_that_providers_take_and_no_two_are_the_same(owned: set[tuple[str, str]]) -> None:
    names = assign_names(owned, {})
    assert all(ACCEPTED_BY_PROVIDERS.fullmatch(name) for name in names.values())
    assert len(set(names.values())) == len(owned)


@given(OWNED)
def test_names_depend_on_what_there_is_and_not_on_its_order(owned: set[tuple[str, str]]) -> None:
    assert assign_names(sorted(owned), {}) == assign_names(sorted(owned, reverse=True), {})
