"""Running the asynchronous part of a command."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine and return its result, on uvloop where that is installed."""
    if os.environ.get("PADDOCK_DEBUG") != "1":
        # The host's log records are for a daemon's log; commands print what matters themselves.
        logging.getLogger("paddock").addHandler(logging.NullHandler())
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
