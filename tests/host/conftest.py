"""A home with plugins in it, and the host opened on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.packages import write_file, write_json
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.install.commit import commit_install
from paddock.plugins.install.consent import full_consent
from paddock.plugins.install.resolve import resolve_package
from paddock.plugins.manage.enable import enable
from paddock.plugins.package.source import parse_source
from paddock.plugins.store.versions import pin_version

PROGRAM = """
from paddock_sdk import Plugin
plugin = Plugin({name!r}, {version!r})
@plugin.tool
def say(params, context):
    plugin.log.warning("asked", text=params["text"])
    return {{"text": params["text"], "version": {version!r}, "config": dict(plugin.config)}}
plugin.run()
"""
SAY = {
    "name": "say",
    "description": "Say it again",
    "effects": ["read_only"],
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "output_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


class Home:
    """A PADDOCK_HOME that tests fill as commands would."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self._packages = folder / "packages"
        self.environment = {"PADDOCK_HOME": str(self.path)}

    def install(self, name: str = "parrot", version: str = "1.0.0", *, program: str = PROGRAM, **fields: Any) -> None:
        """Install a plugin that repeats what it is told, and enable it."""
        self.upgrade(name, version, program=program, **fields)
        self.changing(lambda plugins: enable(plugins, name))

    def upgrade(self, name: str, version: str, *, program: str = PROGRAM, **fields: Any) -> None:
        """The same without enabling it; one that is enabled stays so."""
        package = self._packages / f"{name}-{version}"
        manifest = {
            "paddock": 1,
            "name": name,
            "version": version,
            "description": "Repeats what it is told",
            "runtime": {"command": ["python3", "./main.py"]},
            "capabilities": [],
            "tools": [SAY],
        } | fields
        write_json(package / "paddock.yaml", manifest)
        write_file(package / "main.py", program.format(name=name, version=version))
        self.take(package)

    def take(self, package: Path) -> None:
        """Install a package as it is."""
        self.changing(lambda plugins: _take(plugins, package))

    def pin(self, name: str, version: str) -> None:
        self.changing(lambda plugins: pin_version(plugins, name, version))

    def changing(self, change: Callable[[Any], object]) -> None:
        """Do what a command would do with the plugin store."""
        with open_local_store(self.environment, self.path) as host:
            change(host.plugins)


def _take(plugins: Any, package: Path) -> None:
    with resolve_package(plugins, parse_source(str(package))) as prepared:
        commit_install(plugins, prepared, full_consent(prepared), allow_downgrade=True)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)
