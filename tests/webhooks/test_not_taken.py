"""What is said of a receiver that took nothing: each reason that sending gives has its words."""

from __future__ import annotations

import pytest

from paddock.net.dial import REFUSED, TIMED_OUT, UNREACHABLE, UNRESOLVED
from paddock.webhooks.retry import failure_hint


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("not_allowed", "private_receivers"),
        (REFUSED, "the connection was refused"),
        (UNRESOLVED, "name"),
        (UNREACHABLE, "no route"),
        (TIMED_OUT, "in time"),
        ("timeout", "in time"),
        ("untrusted", "certificate"),
        ("lost", "closed the connection"),
        ("status.302", "redirects are not followed"),
        ("status.401", "secret"),
        ("status.503", "it answered 503"),
    ],
)
def test_a_reason_is_told_in_words_with_what_to_do(reason: str, words: str) -> None:
    assert words in failure_hint(reason)


def test_of_a_reason_that_is_not_known_nothing_is_made_up() -> None:
    assert failure_hint("something.new") == ""
