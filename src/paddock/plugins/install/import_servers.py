"""Resolves a server from another program's settings into the package that it becomes here.

Most settings name a launcher, which fetches a package at every start. The package is installed instead, pinned: what
was consented to is what runs, and it runs without network access.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.manifest.dialects.mcp_user_config import ImportedServer
from paddock.manifest.model import CommandRuntime
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.permissions import with_capabilities
from paddock.manifest.read import read_each_server
from paddock.manifest.registry_launcher import RegistryCommand, parse_launcher
from paddock.plugins.install.request import ServerImport
from paddock.plugins.install.resolve import ResolvedPackage, resolve_manifest, resolve_package
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.package.source import PackageSource, SourceKind, parse_source
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import current_versions
from paddock.plugins.store.store import PluginStore

if TYPE_CHECKING:
    from paddock.plugins.environments.metadata import IndexOptions


class ServerPackage(Struct, frozen=True):
    """The registry package that a server becomes, with its options."""

    source: PackageSource
    choices: IndexOptions
    typed_source: str  # the source as a person would type it


def find_server_package(server: ImportedServer) -> ServerPackage | None:
    """Return the package that a server's command would fetch; None if it fetches none, or none that we can install."""
    runtime = server.manifest.runtime
    launcher = parse_launcher(runtime.command) if isinstance(runtime, CommandRuntime) and runtime.cwd is None else None
    if not isinstance(launcher, RegistryCommand):
        return None
    from paddock.plugins.environments.metadata import index_options_of

    choices = replace(index_options_of(server.manifest), program=launcher.program, arguments=launcher.arguments)
    return ServerPackage(parse_source(launcher.source, constraints=launcher.extra_packages), choices, launcher.source)


@contextmanager
def resolve_server(
    store: PluginStore, imported: ServerImport, progress: ProgressCallback | None = None
) -> Generator[ResolvedPackage, None, None]:
    """Read a server from its settings, and fetch and check its package, without changing anything yet.

    Raises:
        NotFound: the settings have no such server, or the registry no such package.
        Invalid: the server has problems; carries all of them.
        PaddockError: it cannot be installed; says why.
    """
    server = _with_installed_grants(store, _read_server(imported), imported)
    package = find_server_package(server)
    if package is None:
        with resolve_manifest(store, server.manifest, server.values, imported.file) as resolved:
            yield resolved
        return
    with resolve_package(store, package.source, progress, package.choices, server.values) as resolved:
        yield resolved


def _read_server(imported: ServerImport) -> ImportedServer:
    """Return the server as it will be installed."""
    for name, reading in read_each_server(imported.file):
        if name == imported.name:
            server = reading.all()[0]
            return dataclasses.replace(server, manifest=with_capabilities(server.manifest, imported.capabilities))
    raise NotFound(
        f"{printable(imported.file.name)} has no server {printable(imported.name)}", code="import.no_such_server"
    )


def _with_installed_grants(store: PluginStore, server: ImportedServer, imported: ServerImport) -> ImportedServer:
    """Keep what a person granted to the server since it was imported, unless they choose its capabilities anew.

    Another server of the same name gets nothing that was granted to this one.
    """
    row = store.database.read(current_versions).get(server.manifest.name)
    if imported.capabilities or row is None or not isinstance(server.manifest.runtime, CommandRuntime):
        return server
    package = find_server_package(server)
    origin = row.source.source
    if package is not None:
        is_same = (origin.kind, origin.location) == (package.source.kind, package.source.location)
    else:
        is_same = origin.kind is SourceKind.CONFIGURATION and origin.location == str(imported.file)
    if not is_same:
        return server
    installed = manifest_of(row)
    manifest = with_capabilities(server.manifest, installed.capabilities)
    unchanged = replace(manifest, version=installed.version)
    return dataclasses.replace(server, manifest=unchanged if to_yaml(unchanged) == to_yaml(installed) else manifest)
