"""`paddock import`: finds the MCP servers of other programs, and imports them as plugins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.mcp_import.client_files import CLIENT_NAMES
from paddock.cli.commands.mcp_import.grant_offer import offer_trial
from paddock.cli.commands.mcp_import.import_servers import import_servers
from paddock.cli.commands.mcp_import.import_terms import ImportTerms
from paddock.cli.commands.plugin.install import grant_option
from paddock.cli.output.report import print_error, print_json
from paddock.core.errors import Invalid, NotFound, OperatorError, PaddockError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.commands.mcp_import.found_servers import Discovery
    from paddock.config.directories import Directories
    from paddock.manifest.capability import Capability
    from paddock.manifest.result import ManifestResult
    from paddock.plugins.store.rows import VersionRow


_EXAMPLE_SETTINGS = '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
_FILE_SUFFIXES = (".json", ".jsonc", ".toml", ".yaml", ".yml", ".mcpb", ".dxt", ".zip")


@command("import", examples=["paddock import", "paddock import time --replace", "paddock import .vscode/mcp.json"])
@click.argument(
    "names",
    nargs=-1,
    metavar="[FILE] [NAME]...",
    help="The servers. With FILE, those of a client's settings, a server.json or an .mcpb.",
)
@click.option("--all", "all_", is_flag=True, help="Import all servers that are found.")
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="CLIENT",
    help=f"Look only into the settings of {', '.join(CLIENT_NAMES[:-1])} or {CLIENT_NAMES[-1]}; may be repeated.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Import only this server; may be repeated.")
@click.option(
    "--capability",
    multiple=True,
    metavar="CAPABILITY",
    help="Grant an additional capability, e.g. net:api.github.com:443; may be repeated.",
)
@grant_option
@click.option(
    "--replace",
    "replace_",
    is_flag=True,
    help="Replace the imported servers in each client's settings by Paddock; a backup is kept.",
)
@click.option(
    "--paths",
    type=click.Choice(["read", "write", "none"]),
    help="Let servers read, or also change, the files and folders that their settings name. [default: ask]",
)
@click.option(
    "--try/--no-try",
    "tries",
    default=None,
    help="Try each server that runs here: whether it answers, and what else it needs. [default: ask]",
)
@click.option("--undo", is_flag=True, help="Put back what --replace replaced, in FILE or in all settings.")
@options.yes
@options.as_json
def import_(
    names: tuple[str, ...],
    *,
    all_: bool,
    clients: tuple[str, ...],
    only: tuple[str, ...],
    capability: tuple[str, ...],
    grant: tuple[str, ...],
    replace_: bool,
    paths: str | None,
    tries: bool | None,
    undo: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Import MCP servers, after showing each and asking for consent. API keys are encrypted and stored as secrets.

    Without FILE, the servers of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Zed, Codex and Gemini CLI are
    listed, and you choose. Afterwards, settings are printed for your client, so that it reaches all servers through
    Paddock.
    """
    file = Path(names[0]) if names and _is_file_argument(names[0]) else None
    chosen = (*names[0 if file is None else 1 :], *only)
    _check_clients(clients)
    if undo:
        from paddock.cli.commands.mcp_import.undo import undo_replacements

        if chosen:
            raise click.UsageError("--undo takes a settings file and no names of servers")
        undo_replacements(_directories(), file, as_json=as_json)
        return
    terms = ImportTerms(capability, grant, file, chosen, clients, all_, replace_, yes, paths, tries)
    if file is None:
        _import_found(terms, as_json=as_json)
    else:
        _import_file(file, terms, as_json=as_json)


def _is_file_argument(text: str) -> bool:
    """Whether an argument is a file and not the name of a server."""
    named = "/" in text or text.startswith(".") or text.lower().endswith(_FILE_SUFFIXES)
    return named or os.path.isfile(text)  # noqa: PTH113 - a path that cannot be one is no file either, and no error


def _check_clients(clients: Sequence[str]) -> None:
    for name in clients:
        if name not in CLIENT_NAMES:
            raise click.BadParameter(
                f"{printable(name)} is not one of {', '.join(CLIENT_NAMES)}", param_hint="--client"
            )


def _import_file(path: Path, terms: ImportTerms, *, as_json: bool) -> None:
    from paddock.cli.client.api_client import open_client
    from paddock.cli.commands.mcp_import.client_settings import read_client_settings, require_client_settings
    from paddock.cli.commands.mcp_import.found_servers import found_from_file, select_servers
    from paddock.cli.commands.plugin.confirm_install import install_package, report_installed
    from paddock.cli.output.consent_prompt import parse_grants
    from paddock.plugins.package.source import ARCHIVE_SUFFIXES, absolute_source

    if not os.path.exists(path):  # noqa: PTH110 - a path that cannot be one is no file either, and no error
        raise NotFound(f"there is no file {path}", code="import.no_such_file", hint="is the path spelt right?")
    capabilities = parse_grants(terms.capability, "--capability")
    client = read_client_settings(path)
    if terms.replace:
        require_client_settings(client, path)
    if path.suffix.lower() in ARCHIVE_SUFFIXES:
        _reject_capabilities_for_bundle(path, capabilities)
        body = {"source": absolute_source(str(path))[0], "grant": list(terms.grant)}
        with open_client() as api:
            value = install_package(api, body, parse_grants(terms.grant), terms.retype(), yes=terms.yes)
            failures: list[PaddockError] = []
            offer_trial(api, value, terms, failures)
            report_installed(api, value, as_json=as_json)
            if failures:
                raise failures[0]
        return
    own = client.paddock_entries if client else frozenset[str]()
    found = found_from_file(path, _read_servers(path))
    servers = [server for server in select_servers(found, terms.names, path.name) if server.title not in own]
    if not servers:
        raise OperatorError(
            f"{path.name} has only Paddock itself, and nothing to import",
            code="import.no_servers",
            hint="add servers to Paddock: paddock plugin install",
        )
    with open_client(asks_passphrase=True) as api:
        import_servers(api, servers, terms, as_json=as_json)


def _import_found(terms: ImportTerms, *, as_json: bool) -> None:
    from paddock.cli.client.api_client import open_client
    from paddock.cli.commands.mcp_import.found_servers import current_discovery, select_servers
    from paddock.cli.commands.mcp_import.server_choice import ask_for_servers, found_to_json, print_found
    from paddock.cli.output.report import is_interactive

    discovery = current_discovery(terms.clients)
    if terms.names or terms.all_:
        _require_servers(discovery)
        for failure in discovery.failures:
            print_error(failure)
        servers = select_servers(discovery.servers, terms.names, "the settings of your clients")
    elif as_json:
        print_json(found_to_json(discovery, _installed_plugins()))
        return
    else:
        print_found(discovery, _installed_plugins())
        servers = ask_for_servers(discovery.servers) if discovery.servers and is_interactive() else []
    if servers:
        with open_client(asks_passphrase=True) as api:
            import_servers(api, servers, terms, as_json=as_json)


def _installed_plugins() -> Mapping[str, VersionRow]:
    from paddock.cli.client.local_store import open_for_read
    from paddock.plugins.store.rows import current_versions

    with open_for_read() as store:
        return store.plugins.database.read(current_versions)


def _require_servers(discovery: Discovery) -> None:
    if not discovery.servers:
        if discovery.failures:
            raise discovery.failures[0]
        raise NotFound(
            "no MCP client on this machine has servers in its settings",
            code="import.nothing_found",
            hint="name the file of another client, or install a server by its package: paddock plugin install",
        )


def _read_servers(path: Path) -> list[tuple[str, ManifestResult]]:
    """Return the servers of a file with their names there."""
    from paddock.manifest.read import read_each_server

    try:
        servers = read_each_server(path)
    except Invalid as error:
        example = f"name the settings of a program that uses MCP servers, as in {_EXAMPLE_SETTINGS}"
        raise error.with_remedy(hint=error.hint or example, action=error.action) from error
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be opened: {error.strerror}", code="import.unreadable", hint="look at who may read it"
        ) from None
    if [problem.code for _, reading in servers for problem in reading.errors] == ["unknown_dialect"]:
        raise OperatorError(
            f"{path.name} lists no MCP servers: there is no mcpServers in it, and no servers",
            code="import.no_servers",
            hint=f"this is how a file with one looks: {_EXAMPLE_SETTINGS}",
        )
    return servers


def _directories() -> Directories:
    from paddock.config.directories import find_directories

    return find_directories(os.environ, Path.home())


def _reject_capabilities_for_bundle(path: Path, capabilities: Sequence[Capability]) -> None:
    if capabilities:
        names = ", ".join(f"'{item}'" for item in capabilities)
        raise OperatorError(
            f"{path.name} is a package, and what it asks for is part of it",
            code="import.capability_for_package",
            hint=f"unpack it, add a paddock.yaml with 'capabilities: [{names}]', and install the directory",
        )
