"""`paddock import FILE`: import another program's MCP servers as plugins."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.commands.plugin.install import grant_option
from paddock.cli.output.report import print_error, print_json, print_message, print_problems, styled
from paddock.core.errors import Invalid, NeedsConsent, NotFound, OperatorError, PaddockError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.cli.commands.client_config import McpClientSettings
    from paddock.config.settings import HttpSettings
    from paddock.manifest.capability import Capability
    from paddock.manifest.dialects.mcp_user_config import ImportedServer
    from paddock.manifest.result import ManifestResult


_EXAMPLE_SETTINGS = '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
_VARIABLE_PATTERN = re.compile(r"\$\{[^}]*\}")


@command("import", examples=["paddock import .vscode/mcp.json", "paddock import server.mcpb"])
@click.argument("file", metavar="FILE", help="mcpServers JSON, .vscode/mcp.json, server.json or .mcpb.")
@click.option("--only", multiple=True, metavar="NAME", help="Import only this server; may be repeated.")
@click.option(
    "--capability",
    multiple=True,
    metavar="CAPABILITY",
    help="Grant an additional capability, e.g. net:api.github.com:443; may be repeated.",
)
@grant_option
@click.option(
    "--replace", "replace_", is_flag=True, help="Replace the imported servers in FILE by Paddock; a backup is kept."
)
@options.yes
@options.as_json
def import_(
    file: str,
    *,
    only: tuple[str, ...],
    capability: tuple[str, ...],
    grant: tuple[str, ...],
    replace_: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Import MCP servers, after showing each and asking for consent. API keys are encrypted and stored as secrets.

    Afterwards, settings are printed for your client, so that it reaches all servers through Paddock.
    """
    from paddock.cli.client.api_client import open_client
    from paddock.cli.commands.client_config import (
        print_client_snippet,
        read_client_settings,
        require_client_settings,
        update_client_settings,
    )
    from paddock.cli.commands.plugin.confirm_install import install_package, report_installed
    from paddock.cli.output.consent_prompt import parse_grants
    from paddock.core.error_formats import error_to_json, exit_code
    from paddock.manifest.names import slug
    from paddock.plugins.package.source import ARCHIVE_SUFFIXES, absolute_source

    path = Path(file)
    if not os.path.exists(file):  # noqa: PTH110 - a path that cannot be one is no file either, and no error
        raise NotFound(f"there is no file {file}", code="import.no_such_file", hint="is the path spelt right?")
    flags = [("only", name) for name in only] + [("capability", text) for text in capability]
    retype = f"paddock import {shlex.quote(file)}" + "".join(f" --{flag} {shlex.quote(text)}" for flag, text in flags)
    capabilities = parse_grants(capability, "--capability")
    client = read_client_settings(path)
    if replace_:
        require_client_settings(client, path)
    if path.suffix.lower() in ARCHIVE_SUFFIXES:
        _reject_capabilities_for_bundle(path, capabilities)
        body = {"source": absolute_source(file)[0], "grant": list(grant)}
        with open_client() as api:
            value = install_package(api, body, parse_grants(grant), retype, yes=yes)
            report_installed(api, value, as_json=as_json)
        return
    servers = _exclude_paddock(_select_servers(path, only), client, path)
    if capabilities and len(servers) > 1:
        raise OperatorError(
            f"{path.name} has {len(servers)} servers, and --capability is meant for one",
            code="import.capability_for_many",
            hint=f"name it: {retype} --only NAME",
        )
    results: list[dict[str, Any]] = []
    failures: list[PaddockError] = []
    granted = [*parse_grants(grant), *capabilities]
    with open_client(asks_passphrase=True) as api:
        for index, (title, reading) in enumerate(servers):
            if len(servers) > 1:
                print_message(f"[{index + 1}/{len(servers)}] {printable(title)}")
            retype_one = retype if only or len(servers) == 1 else f"{retype} --only {shlex.quote(title)}"
            try:
                body = {"settings_file": str(path.resolve()), "server": title, "capabilities": list(capability)}
                result = {"server": title} | _import_server(api, reading, body, granted, retype_one, yes=yes)
                results.append(result)
                _report_copied_secrets(result, reading.all()[0], path)
            except PaddockError as error:
                # One server's failure says nothing about the next.
                failures.append(error)
                not_asked = isinstance(error, NeedsConsent) and error.error_code != "consent_refused"
                action = "waiting" if not_asked else "refused" if isinstance(error, NeedsConsent) else "failed"
                name = reading.plugins[0].manifest.name if reading.plugins else slug(title)
                results.append({"server": title, "name": name, "action": action, "error": error_to_json(error)})
                if error.error_code == "consent_refused":
                    print_message(f"{styled('–', 'yellow')} left out {printable(title)}: you declined")
                else:
                    print_error(error)
    if len(servers) > 1:
        _print_summary(results)
    client_result: dict[str, Any] = {}
    imported = [str(value["server"]) for value in results if "error" not in value]
    if client is not None and imported:
        try:
            client_result = update_client_settings(client, imported, retype, yes=yes) if replace_ else {}
        except PaddockError as error:
            failures.append(error)
            print_error(error)
        client_result = {
            "client": print_client_snippet(client, _http_settings(), as_json=as_json or bool(client_result))
            | client_result
        }
    if as_json:
        print_json({"imported": results} | client_result | ({"error": error_to_json(failures[0])} if failures else {}))
    if failures:
        raise click.exceptions.Exit(exit_code(failures[0]))


def _select_servers(path: Path, only: Sequence[str]) -> list[tuple[str, ManifestResult]]:
    """Return the selected servers with their names in the file; `--only` takes that name or the plugin's."""
    from paddock.manifest.names import slug
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
    names_of = {
        title: {title, slug(title), *(one.manifest.name for one in reading.plugins)} for title, reading in servers
    }
    missing = [name for name in only if not any(name in names for names in names_of.values())]
    if missing:
        raise NotFound(
            f"{path.name} has no server {', '.join(missing)}",
            code="import.no_such_server",
            hint=f"it has: {', '.join(names_of)}",
        )
    return [(title, reading) for title, reading in servers if not only or names_of[title].intersection(only)]


def _exclude_paddock(
    servers: Sequence[tuple[str, ManifestResult]], client: McpClientSettings | None, path: Path
) -> list[tuple[str, ManifestResult]]:
    """Exclude Paddock's own entry, as it stands in a file that was imported before."""
    others = [(title, reading) for title, reading in servers if client is None or title not in client.paddock_entries]
    if not others:
        raise OperatorError(
            f"{path.name} has only Paddock itself, and nothing to import",
            code="import.no_servers",
            hint="add servers to Paddock: paddock plugin install",
        )
    return others


def _import_server(
    api: ApiClient,
    reading: ManifestResult,
    body: Mapping[str, Any],
    granted: Sequence[Capability],
    retype: str,
    *,
    yes: bool,
) -> dict[str, Any]:
    """Show, confirm and install one server; as the package that its command would fetch, if it does that.

    Raises:
        Invalid: it has problems; carries all of them.
        PaddockError: see `install_package`.
    """
    from paddock.cli.commands.plugin.confirm_install import install_package
    from paddock.manifest.rules.readiness import FETCHED_AT_START
    from paddock.plugins.install.import_servers import find_server_package

    package = find_server_package(reading.all()[0])

    def introduce(warnings: Sequence[Mapping[str, Any]]) -> None:
        shown_messages = {warning["message"] for warning in warnings}
        shown_messages |= {
            problem.message for problem in reading.warnings if package and problem.code == FETCHED_AT_START
        }
        print_problems(
            [problem for problem in reading.warnings if problem.message not in shown_messages], "!", "yellow"
        )
        if package:
            source = printable(package.typed_source, 200)
            print_message(
                f"  {styled('→', 'dim')} its command would fetch a package at every start; installed instead: {source}"
            )

    result = install_package(api, body, granted, retype, yes=yes, introduce=introduce)
    return result | ({"package": package.typed_source} if package else {})


def _http_settings() -> HttpSettings:
    from paddock.config.directories import find_directories
    from paddock.config.load import load_settings
    from paddock.config.project_file import working_directory

    return load_settings(find_directories(os.environ, Path.home()), os.environ, cwd=working_directory()).settings.http


def _reject_capabilities_for_bundle(path: Path, capabilities: Sequence[Capability]) -> None:
    if capabilities:
        names = ", ".join(f"'{item}'" for item in capabilities)
        raise OperatorError(
            f"{path.name} is a package, and what it asks for is part of it",
            code="import.capability_for_package",
            hint=f"unpack it, add a paddock.yaml with 'capabilities: [{names}]', and install the directory",
        )


def _report_copied_secrets(result: dict[str, Any], server: ImportedServer, path: Path) -> None:
    """Print which keys were stored as secrets: the file they came from still contains them."""
    copied = sorted(name for name, text in server.values.items() if not _VARIABLE_PATTERN.fullmatch(str(text)))
    if copied and result["action"] in ("installed", "upgraded"):
        result["configured"] = copied
        names = printable(", ".join(copied), 400)
        print_message(f"  {styled('→', 'dim')} stored as secrets: {names}. {printable(path.name)} still contains them")


def _print_summary(results: Sequence[dict[str, Any]]) -> None:
    print_message()
    for result in results:
        imported = "error" not in result
        mark = styled("✓", "green") if imported else styled("–", "yellow")
        status = "waits for your yes" if result["action"] == "waiting" else result["action"]
        print_message(f"{mark} {printable(str(result['server']))}: {status}")
