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

from paddock.manifest.dialects.mcp_user_config import ImportedServer
from paddock.manifest.model import CommandRuntime
from paddock.manifest.registry_launcher import RegistryCommand, parse_launcher
from paddock.plugins.install.resolve import ResolvedPackage, resolve_manifest, resolve_package
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.package.source import PackageSource, parse_source
from paddock.plugins.store.store import PluginStore

if TYPE_CHECKING:
    from paddock.plugins.environments.metadata import IndexOptions


@dataclass(frozen=True, slots=True)
class ServerPackage:
    """The package of a registry that a server becomes, and what is said of it."""

    source: PackageSource
    choices: IndexOptions
    typed_source: str  # as a person would type the source


def find_server_package(server: ImportedServer) -> ServerPackage | None:
    """The package that a server's command would fetch; None where it fetches none, or none that we install."""
    runtime = server.manifest.runtime
    found = parse_launcher(runtime.command) if isinstance(runtime, CommandRuntime) and runtime.cwd is None else None
    if not isinstance(found, RegistryCommand):
        return None
    from paddock.plugins.environments.metadata import index_options_of

    choices = replace(index_options_of(server.manifest), program=found.program, arguments=found.arguments)
    return ServerPackage(parse_source(found.source, constraints=found.extra_packages), choices, found.source)


@contextmanager
def resolve_server(
    store: PluginStore,
    server: ImportedServer,
    package: ServerPackage | None,
    origin: Path,
    progress: ProgressCallback | None = None,
) -> Generator[ResolvedPackage, None, None]:
    """Fetch and check what the server will be, without changing anything yet.

    Raises:
        NotFound: the registry has no such package.
        PaddockError: it cannot be installed; says why.
    """
    if package is None:
        with resolve_manifest(store, server.manifest, server.values, origin) as prepared:
            yield prepared
        return
    with resolve_package(store, package.source, progress, package.choices, server.values) as prepared:
        yield prepared
