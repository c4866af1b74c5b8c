"""The event loop of a command."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on a loop of its own and return its result."""
    with open_runner() as runner:
        return runner.run(main)


def open_runner() -> asyncio.Runner:
    """Return a runner for the event loop of this command, on uvloop where that is installed."""
    if os.environ.get("PADDOCK_DEBUG") != "1":
        # The host's log records are for a daemon's log; commands print what matters themselves.
        logging.getLogger("paddock").addHandler(logging.NullHandler())
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=new_event_loop)
