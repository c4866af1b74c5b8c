"""This host: its version, where it is reached, every setting with who set it, and whether the machine is fit for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from paddock import __version__
from paddock.config.origins import Layer, LoadedSettings
from paddock.config.project import working_directory
from paddock.config.settings import SETTINGS
from paddock.core.errors import PaddockError
from paddock.doctor.check import Check
from paddock.doctor.daemon import Told
from paddock.host.host import Host
from paddock.http.console.page import Page
from paddock.http.console.settings_page import settings_page
from paddock.http.endpoint import HOST
from paddock.http.local_address import console_url, socket_path


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting, as a page shows it."""

    name: str
    value: str
    origin: str
    changed: bool
    meaning: tuple[tuple[bool, str], ...]
    """In pieces: whether each is to be typed as it stands, and its text."""

    @property
    def words(self) -> str:
        """All that somebody may look for it by."""
        return " ".join([self.name, *(text for _, text in self.meaning)]).lower()


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """The settings of one table."""

    name: str
    rows: tuple[SettingRow, ...]

    @property
    def changed(self) -> int:
        return sum(row.changed for row in self.rows)


class HostPages:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._looking = asyncio.Lock()

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/settings/host", self.shown, HOST),
            Page("GET", "/settings/host/check", self.checked, HOST),
        ]

    async def shown(self, request: Request) -> Response:
        host, settings = self._host, self._host.settings
        try:
            url = await asyncio.to_thread(console_url, host.directories, settings.http)
        except PaddockError:
            url = ""
        words = request.query_params.get("q", "").strip()
        values = {
            "version": __version__,
            "url": url,
            "socket": str(socket_path(host.directories)),
            "directories": host.directories,
            "condition": host.condition.to_json(),
            "policy_version": host.rules.policy.version,
            "oidc": settings.oidc,
            "shared_store": settings.store.url is not None,
            "groups": groups_of(matching(rows_of(host.loaded), words)),
            "changed": sum(row.changed for row in rows_of(host.loaded)),
            "warnings": host.loaded.warnings,
            "words": words,
        }
        return settings_page(request, "settings_host.html", values)

    async def checked(self, request: Request) -> Response:
        plugins = await self._host.plugins()
        condition = self._host.condition.to_json()
        told = Told(plugins, condition["troubles"], condition["takes_calls"])
        async with self._looking:  # it starts a cage and many threads: one at a time
            checks = await asyncio.to_thread(_look, told)
        return settings_page(request, "settings_check.html", {"checks": checks})


def _look(told: Told) -> list[Check]:
    """What `paddock doctor` finds."""
    # Imported here: with it comes all that looks at the machine, which a host that nobody asks never needs.
    from paddock.doctor.machine import check_machine

    return check_machine(os.environ, Path.home(), working_directory(), lambda _: told)


def rows_of(loaded: LoadedSettings) -> list[SettingRow]:
    """Every setting with its value, as far as that may be shown, and where it came from."""
    return [
        SettingRow(
            name,
            value,
            str(origin),
            origin.layer is not Layer.DEFAULT,
            tuple((bool(at % 2), text) for at, text in enumerate(SETTINGS[name].description.split("`")) if text),
        )
        for name, value, origin in loaded.rows()
    ]


def matching(rows: Iterable[SettingRow], words: str) -> list[SettingRow]:
    """Those that have all of these words in them."""
    wanted = words.lower().split()
    return [row for row in rows if all(word in row.words for word in wanted)]


def groups_of(rows: Iterable[SettingRow]) -> list[SettingGroup]:
    """Settings by the table that they stand in."""
    by_table = groupby(sorted(rows, key=lambda row: row.name.partition(".")[0]), lambda row: row.name.partition(".")[0])
    return [SettingGroup(name, tuple(found)) for name, found in by_table]
