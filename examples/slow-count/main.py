"""Two tools that take their time: one tells how far it is, the other gives away what it has as it goes."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Annotated, TypeAlias, TypedDict

from paddock_sdk import Cancelled, Plugin

plugin = Plugin("slow-count", "1.0.0")

Number: TypeAlias = Annotated[int, {"minimum": 1, "maximum": 1000}]
Milliseconds: TypeAlias = Annotated[int, {"minimum": 0, "maximum": 2000}]


class Counted(TypedDict):
    counted: int


class Square(TypedDict):
    number: int
    square: int


class Sum(TypedDict):
    sum: int


@plugin.tool
def count(to: Number, pause_ms: Milliseconds = 200) -> Counted:
    """Count up to a number, with progress on the way."""
    for number in range(1, to + 1):
        plugin.check_cancelled()
        time.sleep(pause_ms / 1000)
        plugin.progress(number, to, f"counted to {number}")
    return {"counted": to}


@plugin.tool
def squares(to: Number, pause_ms: Milliseconds = 200) -> Generator[Square, None, Sum]:
    """The squares up to that of a number, each as soon as it is known, and in the end their sum."""
    total = 0
    try:
        for number in range(1, to + 1):
            time.sleep(pause_ms / 1000)
            total += number * number
            yield {"number": number, "square": number * number}
    except Cancelled:
        plugin.log.info("nobody wants the rest", sum_so_far=total)
        raise
    return {"sum": total}


if __name__ == "__main__":
    plugin.run()
