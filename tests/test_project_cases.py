"""A family that is one test runs every case and tells all that are wrong."""

from __future__ import annotations

import inspect

import pytest

from fixtures.all_cases import all_cases


def test_every_case_runs_and_all_that_are_wrong_are_told_with_their_ids() -> None:
    seen: list[int] = []

    @all_cases(("number", "even"), [(1, False), pytest.param(2, False, id="two"), (3, True), (4, True)])
    def family(number: int, even: bool) -> None:
        seen.append(number)
        assert (number % 2 == 0) is even

    with pytest.raises(ExceptionGroup, match="2 of 4 cases are wrong: two, 3-True") as failed:
        family()
    assert seen == [1, 2, 3, 4]
    assert [error.__notes__ for error in failed.value.exceptions] == [["case: two"], ["case: 3-True"]]


def test_a_case_that_does_not_raise_what_it_should_does_not_end_the_others() -> None:
    @all_cases("number", [0, 1, 2])
    def family(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            assert 1 / number

    with pytest.raises(ExceptionGroup, match="2 of 3 cases are wrong: 1, 2") as failed:
        family()
    assert failed.group_contains(AssertionError, match="DID NOT RAISE")


async def test_a_family_may_be_asynchronous_and_two_of_values_make_each_pair() -> None:
    seen: list[tuple[str, int]] = []

    @all_cases("letter", ["a", "b"])
    @all_cases("number", [1, 2])
    async def family(letter: str, number: int) -> None:
        seen.append((letter, number))
        assert (letter, number) != ("b", 2)

    with pytest.raises(ExceptionGroup, match="1 of 2 cases are wrong: b") as failed:
        await family()
    assert seen == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert failed.group_contains(AssertionError, depth=2)


def test_the_fixtures_of_a_family_are_those_that_no_case_gives(tmp_path: object) -> None:
    @all_cases("number", [1], ids=["one"])
    def family(tmp_path: object, number: int) -> None:
        raise ValueError(tmp_path, number)

    assert list(inspect.signature(family).parameters) == ["tmp_path"]
    with pytest.raises(ExceptionGroup, match="1 of 1 cases are wrong: one"):
        family(tmp_path=tmp_path)


def test_a_family_without_a_case_or_with_another_name_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="proves nothing"):
        all_cases("number", [])
    with pytest.raises(AssertionError, match="does not take"):

        @all_cases("number", [1])
        def family(letter: str) -> None: ...
