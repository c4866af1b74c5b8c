"""What is shown once."""

from __future__ import annotations

from paddock.console.one_time_view import TTL_S, OneTimeView


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_it_is_given_once_and_to_whoever_made_it() -> None:
    kept: OneTimeView[str] = OneTimeView()
    name = kept.put("user:ann", "the key")

    assert kept.take("user:bob", name) is None
    assert kept.take("user:ann", name) == "the key"
    assert kept.take("user:ann", name) is None


def test_it_is_forgotten_after_a_minute() -> None:
    hands = Hands()
    kept: OneTimeView[str] = OneTimeView(hands)
    name = kept.put("user:ann", "the key")
    hands.at = TTL_S

    assert kept.take("user:ann", name) is None


def test_however_many_are_made_and_never_looked_at_few_are_kept() -> None:
    kept: OneTimeView[int] = OneTimeView()
    names = [kept.put("user:ann", number) for number in range(1_001)]

    assert kept.take("user:ann", names[0]) is None
    assert kept.take("user:ann", names[-1]) == 1_000
