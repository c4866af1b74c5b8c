"""Running the asynchronous part of a command."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, on uvloop where it is installed."""
    if os.environ.get("PADDOCK_DEBUG") != "1":
        # What a host notes by the way is for the log of a daemon, which has one: commands say themselves what matters.
        logging.getLogger("paddock").addHandler(logging.NullHandler())
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
