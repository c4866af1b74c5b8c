"""Versions order as the standard says; constraints mean what they mean to npm."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.all_cases import all_cases
from paddock.core.errors import OperatorError
from paddock.core.semver import Constraint, Version, highest_allowed

numbers = st.integers(0, 3) | st.integers(0, 2**53 - 1)
words = st.from_regex(r"[0-9]*[a-zA-Z-][0-9a-zA-Z-]{0,4}", fullmatch=True)
versions = st.builds(
    Version,
    numbers,
    numbers,
    numbers,
    st.lists(numbers | words, max_size=3).map(tuple),
    st.sampled_from(["", "b1", "exp.sha-5114f85", "001"]),
)


def v(text: str) -> Version:
    return Version.parse(text)


@given(versions)
def test_a_version_survives_being_written_and_read(version: Version) -> None:
    again = v(str(version))
    assert again == version
    assert again.build == version.build


@given(versions, versions, versions)
def test_versions_are_totally_ordered(a: Version, b: Version, c: Version) -> None:
    assert (a < b) + (a == b) + (a > b) == 1
    assert not (a < b and b < c) or a < c
    assert (a <= b) == (a < b or a == b)
    assert a != b or hash(a) == hash(b)


@given(versions)
def test_a_pre_release_comes_before_its_release(version: Version) -> None:
    release = Version(*version.core)
    assert version == release if not version.pre else version < release


def test_the_order_printed_in_the_standard() -> None:
    words = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1"
    ladder = [v(text) for text in f"{words} 1.0.0 2.0.0 2.1.0 2.1.1".split()]
    assert all(low < high for low, high in pairwise(ladder))
    assert v("1.0.0+a") == v("1.0.0+b")


@all_cases(
    "text",
    [
        "",
        "1",
        "1.2",
        "v1.2.3",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3-a..b",
        "1.2.3+",
        " 1.2.3",
        "1.2.3\n",
        "1.2.3.4",
        "-1.2.3",
        "1.2.x",
        "١.2.3",
        "9007199254740992.0.0",
        "1" * 300 + ".0.0",
        "1.2.3-" + "9" * 40,
        "1.2.3-ä",
    ],
)
def test_anything_but_a_full_version_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(OperatorError) as caught:
        v(text)
    assert caught.value.hint
    assert len(str(caught.value)) < 120


# (constraint, versions it allows, versions it does not), as npm's semver answers
MEANINGS = [
    ("1.2.3", "1.2.3 1.2.3+build", "1.2.4 1.2.3-a"),
    ("=1.2.3", "1.2.3", "1.2.2"),
    ("= 1.2.3-a", "1.2.3-a", "1.2.3 1.2.3-b"),
    ("1.x", "1.0.0 1.9.9", "0.9.9 2.0.0 2.0.0-a 1.0.0-a 1.5.0-a"),
    ("1", "1.0.0 1.9.9", "2.0.0"),
    ("1.2.x", "1.2.0 1.2.9", "1.1.9 1.3.0 1.3.0-0"),
    ("1.2.*", "1.2.0", "1.3.0"),
    ("1.2", "1.2.0 1.2.9", "1.3.0"),
    ("1.X.x", "1.7.0", "2.0.0"),
    ("*", "0.0.0 9.9.9", "1.0.0-a"),
    ("x", "0.0.0", "1.0.0-a"),
    ("^1.2.3", "1.2.3 1.9.0", "1.2.2 2.0.0 2.0.0-a 1.2.4-a 1.2.3-a"),
    ("^1.2.3-b.2", "1.2.3-b.2 1.2.3-b.4 1.2.3 1.9.0", "1.2.3-b.1 1.2.4-b.2 2.0.0"),
    ("^0.2.3", "0.2.3 0.2.9", "0.3.0 0.2.2"),
    ("^0.0.3", "0.0.3", "0.0.4 0.0.2"),
    ("^0.0.3-b", "0.0.3-b 0.0.3-pr.2 0.0.3", "0.0.4"),
    ("^0.0.0", "0.0.0", "0.0.1"),
    ("^1.2.x", "1.2.0 1.9.0", "1.1.9 2.0.0"),
    ("^0.0.x", "0.0.0 0.0.9", "0.1.0"),
    ("^0.0", "0.0.5", "0.1.0"),
    ("^1.x", "1.0.0 1.9.0", "2.0.0"),
    ("^0.x", "0.0.0 0.9.0", "1.0.0"),
    ("^*", "4.0.0", "4.0.0-a"),
    ("~1.2.3", "1.2.3 1.2.9", "1.3.0 1.2.2 1.2.4-a"),
    ("~1.2", "1.2.0 1.2.9", "1.3.0"),
    ("~1", "1.0.0 1.9.0", "2.0.0"),
    ("~0.2.3", "0.2.3 0.2.9", "0.3.0"),
    ("~1.2.3-b.2", "1.2.3-b.2 1.2.3 1.2.9", "1.2.4-b.2 1.3.0"),
    (">=1.2 <2", "1.2.0 1.9.9", "1.1.9 2.0.0 2.0.0-a"),
    (">=1.2,<2", "1.2.0", "2.0.0"),
    (">= 1.2 , < 2", "1.2.0", "2.0.0"),
    (">1.2", "1.3.0", "1.2.9 1.2.0"),
    (">1", "2.0.0", "1.9.9"),
    (">1.2.3", "1.2.4", "1.2.3 1.2.4-a"),
    ("<=1.2", "1.2.9 0.0.0", "1.3.0"),
    ("<=1.2.3", "1.2.3", "1.2.4"),
    ("<1.2", "1.1.9", "1.2.0 1.2.0-a"),
    ("<1.2.3", "1.2.2", "1.2.3 1.2.3-a"),
    ("<1.2.3-b", "1.2.3-a 1.2.2", "1.2.3 1.2.3-b 1.2.2-a"),
    (">1.2.3-a.3", "1.2.3-a.7 3.4.5", "3.4.5-a.9 1.2.3-a.2"),
    (">*", "", "0.0.0 1.0.0"),
    ("<*", "", "0.0.0 1.0.0"),
    (">=*", "0.0.0 1.0.0", "1.0.0-a"),
    ("1.2.3 - 2.3.4", "1.2.3 2.3.4", "1.2.2 2.3.5"),
    ("1.2 - 2.3", "1.2.0 2.3.9", "2.4.0 1.1.0"),
    ("1.2.3 - 2", "2.9.9", "3.0.0 1.2.2"),
    ("1.x || >=2.5 || 5.0.0 - 7.2.3", "1.2.3 2.5.0 6.0.0", "2.4.9 0.1.0"),
    ("1.2.7 || >=1.2.9 <2.0.0", "1.2.7 1.2.9 1.4.6", "1.2.8 2.0.0"),
]


@all_cases(("text", "allowed", "refused"), MEANINGS, ids=[row[0] for row in MEANINGS])
def test_a_constraint_allows_what_npm_would(text: str, allowed: str, refused: str) -> None:
    constraint = Constraint.parse(text)
    assert [version for version in allowed.split() if not constraint.allows(v(version))] == []
    assert [version for version in refused.split() if constraint.allows(v(version))] == []


@all_cases(
    "text",
    [
        "",
        "  ",
        "||",
        "1.2.3 ||",
        "latest",
        "1.x.3",
        "*.1",
        "1.2.3,",
        ",1",
        "1,,2",
        ">",
        "^",
        "> = 1",
        ">>1",
        "1.2.3.4",
        "01",
        "~>1.2",
        "1.2-a",
        "1.x-a",
        "1.2.3 -2.0.0 -",
        "!1",
        "1\n2",
        "x" * 300,
        "||".join(["1"] * 60),
        "v1.2.3",
    ],
)
def test_a_constraint_in_no_known_form_is_refused_and_the_forms_are_listed(text: str) -> None:
    with pytest.raises(OperatorError) as caught:
        Constraint.parse(text)
    assert "^1.2.3" in caught.value.hint


def test_the_highest_allowed_version_wins() -> None:
    known = [v(text) for text in ("1.0.0", "1.10.0", "1.9.0", "2.0.0-rc.1", "0.9.0")]
    assert highest_allowed(known, Constraint.parse("1.x")) == v("1.10.0")
    assert highest_allowed(known, Constraint.parse("*")) == v("1.10.0")
    assert highest_allowed(known, Constraint.parse(">=2.0.0-0")) == v("2.0.0-rc.1")
    assert highest_allowed(known, Constraint.parse("3.x")) is None


@given(versions)
def test_every_version_satisfies_the_constraints_made_from_it(version: Version) -> None:
    for form in ("{0}", "={0}", "^{0}", "~{0}", ">={0}", "<={0}", "{0} - {0}"):
        assert Constraint.parse(form.format(version)).allows(version)
    for form in (">{0}", "<{0}"):
        assert not Constraint.parse(form.format(version)).allows(version)


@given(versions, versions)
def test_a_caret_range_never_crosses_a_breaking_change(base: Version, other: Version) -> None:
    if Constraint.parse(f"^{base}").allows(other):
        assert other >= base
        assert other.major == base.major
        assert base.major or other.minor == base.minor


@given(st.text(max_size=40))
def test_no_text_breaks_the_readers(text: str) -> None:
    for read in (Version.parse, Constraint.parse):
        try:
            read(text)
        except OperatorError as refused:
            assert refused.hint
