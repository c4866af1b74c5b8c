"""The servers in the settings of the MCP clients on this machine, and which of them are imported already."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from paddock.cli.commands.mcp_import.client_files import ClientFile, client_files
from paddock.cli.commands.mcp_import.client_settings import McpClientSettings, read_client_settings
from paddock.cli.commands.mcp_import.replacement_log import read_settings_text
from paddock.core.errors import Conflict, Invalid, NotFound, OperatorError, PaddockError
from paddock.core.printable import printable
from paddock.manifest.client_config import mentions_servers
from paddock.manifest.dialects.mcp_server_lists import CLIENT_FORMS
from paddock.manifest.model import CommandRuntime, RemoteRuntime
from paddock.manifest.names import slug
from paddock.manifest.read import read_each_server
from paddock.manifest.result import ManifestResult
from paddock.plugins.install.import_servers import find_server_package
from paddock.plugins.package.source import SourceKind
from paddock.plugins.store.rows import VersionRow

ImportState = Literal["new", "imported", "changed", "name_taken", "invalid"]


class ServerPlace(Struct, frozen=True):
    """A file that lists a server."""

    path: Path
    settings: McpClientSettings | None  # None if the file is no client's settings, as a package is not
    client: str = ""
    client_title: str = ""


class FoundServer(Struct, frozen=True):
    """A server, with every file that lists exactly this one."""

    title: str
    reading: ManifestResult
    places: tuple[ServerPlace, ...]

    @property
    def name(self) -> str:
        """The name of the plugin that it becomes."""
        return self.reading.plugins[0].manifest.name if self.reading.plugins else slug(self.title)

    @property
    def names(self) -> set[str]:
        return {self.title, slug(self.title), self.name}

    @property
    def command_text(self) -> str:
        """The command or the URL, with references in place of keys."""
        match self.reading.plugins[0].manifest.runtime if self.reading.valid and self.reading.plugins else None:
            case CommandRuntime(command=command):
                return shlex.join(command)
            case RemoteRuntime(url=url):
                return url
            case _:
                return ""

    def state(self, installed: Mapping[str, VersionRow]) -> ImportState:
        """Compare it with the installed plugins, by name."""
        if not self.reading.valid:
            return "invalid"
        plugin = installed.get(self.name)
        if plugin is None:
            return "new"
        if plugin.version == self.reading.plugins[0].manifest.version:
            return "imported"
        source = plugin.source.source
        if source.kind is SourceKind.CONFIGURATION:
            return "changed"
        package = find_server_package(self.reading.plugins[0])
        same = package and (package.source.kind, package.source.location) == (source.kind, source.location)
        return "imported" if same else "name_taken"


class Discovery(Struct, frozen=True):
    """All servers that were found, and the files that could not be read."""

    servers: tuple[FoundServer, ...]
    failures: tuple[PaddockError, ...] = ()


def discover_servers(environ: Mapping[str, str], home: Path, clients: Sequence[str] = ()) -> Discovery:
    """Read the settings of every known client, or of these.

    A file with a mistake does not affect the others.
    """
    found: list[FoundServer] = []
    failures: list[PaddockError] = []
    for file in client_files(environ, home):
        if clients and file.client not in clients:
            continue
        try:
            found += _read_client_file(file)
        except PaddockError as error:
            failures.append(error)
    return Discovery(tuple(_merge(found)), tuple(failures))


def _read_client_file(file: ClientFile) -> list[FoundServer]:
    shown = printable(str(file.path), 400)
    try:
        if not mentions_servers(file.path.name, read_settings_text(file.path)):
            return []
        servers = read_each_server(file.path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise OperatorError(
            f"{shown} ({file.title}) cannot be read: {reason}", code="import.unreadable", hint="look at who may read it"
        ) from None
    except Invalid as error:
        raise Invalid(
            f"{shown} ({file.title}) cannot be read", error.problems, code=error.error_code, hint=error.hint
        ) from None
    settings = read_client_settings(file.path)
    if settings is None:
        return []
    place = ServerPlace(file.path, settings, file.client, file.title)
    return [
        FoundServer(title, reading, (place,))
        for title, reading in servers
        if reading.form in CLIENT_FORMS and title not in settings.paddock_entries
    ]


def _merge(found: Iterable[FoundServer]) -> list[FoundServer]:
    """Join the places of servers that are the same in several files."""
    merged: list[FoundServer] = []
    for server in found:
        index = next((index for index, other in enumerate(merged) if _is_same(server, other)), None)
        if index is None:
            merged.append(server)
        else:
            merged[index] = replace(merged[index], places=(*merged[index].places, *server.places))
    return merged


def _is_same(server: FoundServer, other: FoundServer) -> bool:
    both_valid = server.reading.valid and other.reading.valid
    return server.title == other.title and both_valid and server.reading.plugins == other.reading.plugins


def select_servers(servers: Sequence[FoundServer], names: Sequence[str], where: str) -> list[FoundServer]:
    """Return the servers with these names, theirs in the file or the plugin's; all of them if there are none.

    Raises:
        NotFound: there is no server of such a name.
        Conflict: two of them would become the same plugin.
    """
    missing = [name for name in names if not any(name in server.names for server in servers)]
    if missing:
        titles = ", ".join(dict.fromkeys(printable(server.title) for server in servers))
        raise NotFound(
            f"{where} has no server {', '.join(map(printable, missing))}",
            code="import.no_such_server",
            hint=f"it has: {titles}" if titles else "",
        )
    return require_distinct([server for server in servers if not names or server.names.intersection(names)])


def require_distinct(servers: Sequence[FoundServer]) -> list[FoundServer]:
    """Return the servers, of which no two may become the same plugin.

    Raises:
        Conflict: two would.
    """
    counts = Counter(server.name for server in servers if server.reading.valid)
    ambiguous = [server for server in servers if counts[server.name] > 1]
    if ambiguous:
        listed = "; ".join(
            f"{printable(server.title)} of {server.places[0].client_title or server.places[0].path.name}"
            for server in ambiguous
        )
        raise Conflict(
            f"these differ, and would become plugins of the same name: {listed}",
            code="import.ambiguous",
            hint="choose one client at a time with --client, or rename one of them in its settings",
        )
    return list(servers)


def found_from_file(path: Path, servers: Sequence[tuple[str, ManifestResult]]) -> list[FoundServer]:
    """Return the servers of one file that a person named."""
    place = ServerPlace(path, read_client_settings(path))
    return [FoundServer(title, reading, (place,)) for title, reading in servers]


def current_discovery(clients: Sequence[str]) -> Discovery:
    """Read the settings of the clients of this user."""
    return discover_servers(os.environ, Path.home(), clients)
