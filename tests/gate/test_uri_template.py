"""Which addresses a server's template stands for."""

from __future__ import annotations

import time

import pytest

from paddock.gate.catalogue.uri_template import parse_uri_template


@pytest.mark.parametrize(
    ("template", "fits", "does_not"),
    [
        ("memo://{name}", ["memo://a", "memo://a%2Fb"], ["memo://", "memo://a/b", "memo://a?b", "note://a"]),
        ("memo://{a}/{b}.txt", ["memo://x/y.txt", "memo://x/y.z.txt"], ["memo://x/y", "memo://x.txt", "memo:///y.txt"]),
        ("file:///{path*}", ["file:///a/b/c"], ["file:///", "http:///a"]),
        ("file:///{+path}", ["file:///a/b?c"], ["file:///"]),
        ("db://rows{?limit,offset}", ["db://rows", "db://rows?limit=1&offset=2"], ["db://row"]),
        ("db://rows{/id}{?q}", ["db://rows", "db://rows/7", "db://rows/7?q=x", "db://rows?q=x"], ["db://"]),
        ("{a}-{b}", ["x-y", "a-b-c"], ["-y", "x-", "x"]),
        ("plain://no/variable", ["plain://no/variable"], ["plain://no/variable/", "plain://no"]),
    ],
)
def test_an_address_fits_the_template_that_it_was_made_from(
    template: str, fits: list[str], does_not: list[str]
) -> None:
    ready = parse_uri_template(template)

    assert ready is not None
    assert [uri for uri in fits if not ready.matches(uri)] == []
    assert [uri for uri in does_not if ready.matches(uri)] == []


def test_a_template_that_stands_for_everything_stands_for_nothing() -> None:
    assert parse_uri_template("{+uri}") is None
    assert parse_uri_template("") is None
    assert parse_uri_template("x" * 10_000) is None


def test_no_template_makes_a_match_slow() -> None:
    ready = parse_uri_template("x" + "{+a}" * 900 + "!")
    began = time.perf_counter()

    assert ready is not None and not ready.matches("x" * 2_000)
    assert not ready.matches("x" * 2_001)
    assert time.perf_counter() - began < 1
