"""A plugin under its author's hands: a real workshop with real cages, and everything that a session tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.authoring.checks.plugin_under_test import CheckResult
from paddock.authoring.checks.run import run_checks
from paddock.authoring.dev_session import SLOW_CALL_S, DevSession, RepeatedCall
from paddock.authoring.file_watcher import scan_folder
from paddock.authoring.scaffold import create_plugin_folder
from paddock.authoring.template_catalog import find_template
from paddock.authoring.traffic import DevEventReporter
from paddock.core.clock import SystemClock
from paddock.host.dev.open_dev_host import open_dev_host
from paddock.manifest.read import read_package

PATIENCE = 60.0  # only a broken test waits this long


def made(folder: Path, kind: str = "plugin", language: str = "python", name: str = "greeter") -> Path:
    """A new plugin, as `paddock plugin new` makes it."""
    create_plugin_folder(find_template(kind, language), name, folder)
    return folder


def edit(file: Path, old: str, new: str) -> None:
    """Save a file with one thing changed."""
    before = file.read_text()
    assert old in before, f"{old!r} is not in {file.name}"
    file.write_text(before.replace(old, new))


@dataclass
class Told:
    """Every event of a session."""

    events: list[dict[str, Any]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self._news.set()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    async def until(self, found: Callable[[], Any]) -> Any:
        """What `found` gives, as soon as it gives something."""
        async with asyncio.timeout(PATIENCE):
            while not (value := found()):
                self._news.clear()
                await self._news.wait()
        return value

    async def event(self, kind: str, count: int = 1) -> dict[str, Any]:
        """The event of this kind, or the latest of so many."""
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]


@dataclass
class Desk:
    """A session that follows a folder."""

    folder: Path
    session: DevSession
    told: Told
    listening: DevEventReporter


@asynccontextmanager
async def at_work(
    folder: Path,
    home: Path,
    *,
    repeated: RepeatedCall | None = None,
    config: dict[str, Any] | None = None,
    silent_for: float = SLOW_CALL_S,
) -> AsyncGenerator[Desk, None]:
    """A session for as long as the block runs."""
    told, stop = Told(), asyncio.Event()
    manifest = read_package(folder).single()
    listening = DevEventReporter(manifest, told, SystemClock())
    async with open_dev_host(home, folder, listening, environ={}, tap=listening.new_decoder, config=config) as workshop:
        session = DevSession(workshop, listening, manifest.capabilities, repeated, slow_call_s=silent_for)
        known = scan_folder(folder)
        await session.start(await workshop.take_snapshot())
        await session.wait_for_calls()
        following = asyncio.ensure_future(session.follow(known, None, stop))
        try:
            yield Desk(folder, session, told, listening)
        finally:
            stop.set()
            await following


async def findings(folder: Path, home: Path, *, effects: bool = True) -> dict[str, CheckResult]:
    """What `paddock plugin test` finds, by the name of the check."""
    listening = DevEventReporter(read_package(folder).single(), lambda _event: None, SystemClock())
    async with open_dev_host(home, folder, listening, environ={}, tap=listening.new_decoder) as workshop:
        found = await run_checks(workshop, await workshop.take_snapshot(), lambda _finding: None, effects=effects)
    return {one.check: one for one in found}
