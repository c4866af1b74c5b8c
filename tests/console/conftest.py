"""The browser that all tests of the console share."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from fixtures.visitors import chromium

_FOLDER = Path(__file__).parent


class _SharedBrowser:
    """Opened by the first test of a worker that needs it: to start one costs as much as to look at ten pages."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._browser: Browser | None = None

    def open(self) -> Browser:
        if self._browser is None:
            self._browser = self._stack.enter_context(chromium())
        return self._browser

    def close(self) -> None:
        self._browser = None
        self._stack.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """While it is open, its thread has an event loop, and others cannot have theirs."""
        if _FOLDER not in item.path.parents or _has_event_loop(item):
            self.close()

    def pytest_sessionfinish(self) -> None:
        self.close()


_SHARED = pytest.StashKey[_SharedBrowser]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SHARED] = _SharedBrowser()
    config.pluginmanager.register(config.stash[_SHARED])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those with an event loop come first: in between they end the browser, and who comes next has to start one."""
    places = [place for place, item in enumerate(items) if _FOLDER in item.path.parents]
    ours = sorted((items[place] for place in places), key=lambda item: not _has_event_loop(item))
    for place, item in zip(places, ours, strict=True):
        items[place] = item


def _has_event_loop(item: pytest.Item) -> bool:
    return "anyio_backend" in getattr(item, "fixturenames", ())


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Browser:
    return request.config.stash[_SHARED].open()
