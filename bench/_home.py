"""A home with plugins in it, as commands would fill it, for measuring a whole host."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import json

from paddock import Config, open_host
from paddock.daemon.run import tune_garbage_collector
from paddock.host.host import Host
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.install.commit import commit_install
from paddock.plugins.install.consent import full_consent
from paddock.plugins.install.resolve import resolve_package
from paddock.plugins.manage.enable import enable
from paddock.plugins.package.source import parse_source


def write_package(folder: Path, name: str, files: dict[str, str], **fields: Any) -> Path:
    """A native plugin with these files."""
    folder.mkdir(parents=True)
    manifest = {"paddock": 1, "name": name, "version": "1.0.0", "description": "For a measurement"} | fields
    for path, content in {"paddock.yaml": json.dumps(manifest), **files}.items():
        (folder / path).write_text(content, encoding="utf-8")
    return folder


def install(home: Path, *packages: Path | str, enabled: bool = True, environ: Mapping[str, str] | None = None) -> None:
    """Install packages from directories or a registry, with all they ask for, and enable them unless told not to."""
    with open_local_store({"PADDOCK_HOME": str(home), **(environ or {})}, home) as opened:
        for package in packages:
            with resolve_package(opened.plugins, parse_source(str(package))) as prepared:
                done = commit_install(opened.plugins, prepared, full_consent(prepared))
            if enabled:
                enable(opened.plugins, done.plugin)


@asynccontextmanager
async def opened(home: Path, environ: Mapping[str, str]) -> AsyncGenerator[Host, None]:
    """A host on this home in the benchmark's own process, which searches for garbage as a daemon does."""
    async with open_host(Config(home=home, environ=environ)) as host:
        tune_garbage_collector()
        yield host
