"""Two tools that take their time: one tells how far it is, the other gives away what it has as it goes."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from paddock_sdk import Cancelled, Context, InvalidParams, JsonObject, Plugin

plugin = Plugin("slow-count", "1.0.0")


@plugin.tool
def count(params: JsonObject, _context: Context) -> JsonObject:
    to, pause = _numbers(params)
    for number in range(1, to + 1):
        plugin.check_cancelled()
        time.sleep(pause)
        plugin.progress(number, to, f"counted to {number}")
    return {"counted": to}


@plugin.tool
def squares(params: JsonObject, _context: Context) -> Generator[JsonObject, None, JsonObject]:
    to, pause = _numbers(params)
    total = 0
    try:
        for number in range(1, to + 1):
            time.sleep(pause)
            total += number * number
            yield {"number": number, "square": number * number}
    except Cancelled:
        plugin.log.info("nobody wants the rest", sum_so_far=total)
        raise
    return {"sum": total}


def _numbers(params: JsonObject) -> tuple[int, float]:
    """How far to count, and the seconds between two numbers."""
    to: Any = params.get("to")
    pause: Any = params.get("pause_ms", 200)
    if not isinstance(to, int) or not 1 <= to <= 1000:
        raise InvalidParams("to must be a whole number from 1 to 1000")
    if not isinstance(pause, int) or not 0 <= pause <= 2000:
        raise InvalidParams("pause_ms must be a whole number from 0 to 2000")
    return to, pause / 1000


if __name__ == "__main__":
    plugin.run()
