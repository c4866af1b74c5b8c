"""Host pages: version, addresses, all settings with their origin, and the machine check."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from paddock import __version__
from paddock.config.project_file import working_directory
from paddock.config.resolve import LoadedSettings, SettingLayer
from paddock.config.settings import SETTINGS
from paddock.console.page import Page, render_page
from paddock.core.errors import PaddockError
from paddock.host.doctor.check import Check
from paddock.host.doctor.daemon_check import DaemonReport
from paddock.host.host import Host
from paddock.web.daemon_address import console_url, socket_path
from paddock.web.routing.route import HOST


class SettingRow(Struct, frozen=True):
    """One setting as shown on the page."""

    name: str
    value: str
    origin: str
    changed: bool
    meaning: tuple[tuple[bool, str], ...]
    """Segments of the description: whether each is code, and its text."""

    @property
    def search_text(self) -> str:
        """The text that the search matches against."""
        return " ".join([self.name, *(text for _, text in self.meaning)]).lower()


class SettingGroup(Struct, frozen=True):
    """The settings of one table."""

    name: str
    rows: tuple[SettingRow, ...]

    @property
    def changed(self) -> int:
        return sum(row.changed for row in self.rows)


class HostSettingsPages:
    """Shows the host's settings and runs the machine check."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._check_lock = asyncio.Lock()

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/settings/host", self.show, HOST),
            Page("GET", "/settings/host/check", self.check, HOST),
        ]

    async def show(self, request: Request) -> Response:
        host, settings = self._host, self._host.settings
        try:
            url = await asyncio.to_thread(console_url, host.directories, settings.http)
        except PaddockError:
            url = ""
        search = request.query_params.get("q", "").strip()
        values = {
            "version": __version__,
            "url": url,
            "socket": str(socket_path(host.directories)),
            "directories": host.directories,
            "condition": host.observability.health.to_json(),
            "policy_version": host.policy.active.policy.version,
            "oidc": settings.oidc,
            "shared_store": settings.store.url is not None,
            "groups": group_settings(filter_settings(setting_rows(host.loaded_settings), search)),
            "changed": sum(row.changed for row in setting_rows(host.loaded_settings)),
            "warnings": host.loaded_settings.warnings,
            "words": search,
        }
        return render_page(request, "settings/settings_host.html", values)

    async def check(self, request: Request) -> Response:
        plugins = await self._host.plugins.inventory.list_all()
        condition = self._host.observability.health.to_json()
        report = DaemonReport(plugins, condition["troubles"], condition["takes_calls"])
        async with self._check_lock:  # it starts a cage and many threads, so only one at a time
            checks = await asyncio.to_thread(_run_doctor, report)
        return render_page(request, "settings/settings_check.html", {"checks": checks})


def _run_doctor(report: DaemonReport) -> list[Check]:
    """Run the checks of `paddock doctor`."""
    # Imported lazily: the machine checks import a lot that most hosts never need.
    from paddock.host.doctor.run import check_machine

    return check_machine(os.environ, Path.home(), working_directory(), lambda _: report)


def setting_rows(loaded: LoadedSettings) -> list[SettingRow]:
    """Return every setting with its displayable value and its origin."""
    return [
        SettingRow(
            name,
            value,
            str(origin),
            origin.layer is not SettingLayer.DEFAULT,
            tuple((bool(index % 2), text) for index, text in enumerate(SETTINGS[name].description.split("`")) if text),
        )
        for name, value, origin in loaded.rows()
    ]


def filter_settings(rows: Iterable[SettingRow], search: str) -> list[SettingRow]:
    """Return the settings that contain all words."""
    terms = search.lower().split()
    return [row for row in rows if all(term in row.search_text for term in terms)]


def group_settings(rows: Iterable[SettingRow]) -> list[SettingGroup]:
    """Group settings by table."""
    by_table = groupby(sorted(rows, key=lambda row: row.name.partition(".")[0]), lambda row: row.name.partition(".")[0])
    return [SettingGroup(name, tuple(group_rows)) for name, group_rows in by_table]
