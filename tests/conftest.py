"""What every test of the project shares: the promise plugin, the event loop, and property-test settings."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

pytest_plugins = ["promises.plugin", "fixtures.databases", "fixtures.side_by_side", "pytester"]

# Whoever starts this in the background of a shell has it ignore Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A property test may be slow on a loaded machine without being wrong, so no example has a deadline. In CI the
# examples are fixed: a red run there can be repeated anywhere.
settings.register_profile("paddock", deadline=None)
settings.register_profile("paddock-ci", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("paddock-ci" if os.environ.get("CI") else "paddock")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, the loop that the daemon itself runs on."""
    return "asyncio"
