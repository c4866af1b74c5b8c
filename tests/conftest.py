"""What every test of the project shares: the promise plugin, the event loop, and property-test settings."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

pytest_plugins = ["promises.plugin", "fixtures.databases", "fixtures.side_by_side", "pytester"]

# A property test may be slow on a loaded machine without being wrong, so no example has a deadline. In CI the
# examples are fixed: a red run there can be repeated anywhere.
settings.register_profile("paddock", deadline=None)
settings.register_profile("paddock-ci", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("paddock-ci" if os.environ.get("CI") else "paddock")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, the loop that the daemon itself runs on."""
    return "asyncio"
