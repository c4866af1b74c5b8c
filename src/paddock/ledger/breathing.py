"""Long work in a thread beside calls, which lets go of the interpreter's lock now and then.

A call that needs the lock meanwhile would get it after five milliseconds otherwise, each time that it needs it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

AT_A_BREATH = 16

T = TypeVar("T")


def breathing(many: Iterable[T]) -> Iterator[T]:
    """The same, with a breath after each few."""
    for place, one in enumerate(many, 1):
        yield one
        if place % AT_A_BREATH == 0:
            time.sleep(0)
