"""What every test of the project shares: the promise plugin, the event loop, and property-test settings."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import settings

pytest_plugins = ["promises.plugin", "fixtures.databases", "fixtures.early_tests", "pytester"]

# Ten thousand tests stay in memory until the end. Without this their collection takes half as long again, and every
# search for garbage looks through all of them.
gc.disable()

# Whoever starts this in the background of a shell, or with nohup, has it ignore Ctrl-C or the end of its terminal, and
# so would every program that a test starts.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

# A property test may be slow on a loaded machine without being wrong, so no example has a deadline. In CI the
# examples are fixed: a red run there can be repeated anywhere.
_FIXED = {"derandomize": True, "database": None} if os.environ.get("CI") else {}
settings.register_profile("ordinary", deadline=None, max_examples=20, **_FIXED)
settings.register_profile("all", deadline=None, max_examples=100, **_FIXED)
settings.load_profile("ordinary")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.run_all:
        settings.load_profile("all")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, the loop that the daemon itself runs on."""
    return "asyncio"
