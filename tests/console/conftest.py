"""The browser that everybody in a file shares."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser

from fixtures.visitors import chromium


@pytest.fixture(scope="module")
def browser() -> Generator[Browser, None, None]:
    # Of a module and not of all: while it is open, its thread has an event loop, and others cannot have theirs.
    with chromium() as started:
        yield started
