"""A server from another program's settings, as the package that it will be here.

Most settings name a launcher, which fetches a package at every start. The package is installed instead, pinned: what
was consented to is what runs, and it runs without a network.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.manifest.dialects.mcp_settings import Imported
from paddock.manifest.launchers import Packaged, launched
from paddock.manifest.model import CommandRuntime
from paddock.plugins.entries import Report
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.preparing import Prepared, prepare, prepare_manifest
from paddock.plugins.sources import Source, parse_source

if TYPE_CHECKING:
    from paddock.plugins.environments.describing import Choices


@dataclass(frozen=True, slots=True)
class Package:
    """The package of a registry that a server becomes, and what is said of it."""

    source: Source
    choices: Choices
    named: str  # as a person would type the source


def package_of(server: Imported) -> Package | None:
    """The package that a server's command would fetch; None where it fetches none, or none that we install."""
    runtime = server.manifest.runtime
    found = launched(runtime.command) if isinstance(runtime, CommandRuntime) and runtime.cwd is None else None
    if not isinstance(found, Packaged):
        return None
    from paddock.plugins.environments.describing import choices_of

    choices = replace(choices_of(server.manifest), program=found.program, arguments=found.arguments)
    return Package(parse_source(found.source, constraints=found.along), choices, found.source)


@contextmanager
def prepare_server(
    store: PluginStore, server: Imported, package: Package | None, origin: Path, progress: Report | None = None
) -> Generator[Prepared, None, None]:
    """Fetch and check what the server will be, without changing anything yet.

    Raises:
        NotFound: the registry has no such package.
        PaddockError: it cannot be installed; says why.
    """
    if package is None:
        with prepare_manifest(store, server.manifest, server.values, origin) as prepared:
            yield prepared
        return
    with prepare(store, package.source, progress, package.choices, server.values) as prepared:
        yield prepared
