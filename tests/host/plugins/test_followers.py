"""Following news: from a moment on, and without what the follower has from elsewhere."""

from __future__ import annotations

import pytest
from tests.runtime.stage import patiently

from paddock.host.plugins.pubsub import PubSub, Subscription


async def heard(following: Subscription[int], count: int) -> list[int]:
    return [await patiently(anext(following)) for _ in range(count)]


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ({1, 2, 3}, [4, 5, 6]),
        ({3}, [4, 5, 6]),  # only the last lines were read: what came before them is older still
        (set[int](), [1, 2, 3, 4, 5, 6]),
        ({-2, -1, 0}, [1, 2, 3, 4, 5, 6]),
        ({4, 5, 6}, []),
    ],
)
async def test_whoever_read_what_was_kept_is_told_only_what_came_after_it(known: set[int], new: list[int]) -> None:
    followers: PubSub[int] = PubSub(100)
    following = followers.subscribe("parrot")
    for number in range(1, 7):
        followers.publish("parrot", number)
    following.skip_known(known.__contains__)
    followers.publish("parrot", 7)
    assert await heard(following, len(new) + 1) == [*new, 7]


async def test_what_comes_later_is_passed_on_without_a_look_at_what_was_known() -> None:
    followers: PubSub[int] = PubSub(100)
    following = followers.subscribe("parrot")
    asked: list[int] = []
    following.skip_known(lambda number: bool(asked.append(number)))
    for number in range(10):
        followers.publish("parrot", number)
    assert await heard(following, 10) == list(range(10))
    assert asked == []
