"""Imports chosen servers one after another, and hands their clients over to Paddock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli.commands.mcp_import.grant_offer import GrantOffer, offer_trial
from paddock.cli.commands.mcp_import.handover import hand_over, start_server
from paddock.cli.commands.mcp_import.import_terms import ImportTerms
from paddock.cli.output.report import print_error, print_json, print_message, print_problems, styled
from paddock.core.errors import NeedsConsent, OperatorError, PaddockError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.cli.commands.mcp_import.found_servers import FoundServer
    from paddock.manifest.capability import Capability
    from paddock.manifest.dialects.mcp_user_config import ImportedServer

_VARIABLE_PATTERN = re.compile(r"\$\{[^}]*\}")


def import_servers(api: ApiClient, servers: Sequence[FoundServer], terms: ImportTerms, *, as_json: bool) -> None:
    """Import the servers one after another, then write or print the settings of their clients."""
    from paddock.cli.output.consent_prompt import parse_grants
    from paddock.core.error_formats import error_to_json, exit_code
    from paddock.manifest.model import RemoteRuntime

    capabilities = parse_grants(terms.capability, "--capability")
    if capabilities and len(servers) > 1:
        where = terms.file.name if terms.file else "this choice"
        raise OperatorError(
            f"{where} has {len(servers)} servers, and --capability is meant for one",
            code="import.capability_for_many",
            hint=f"name it: {terms.retype()} --only NAME",
        )
    results: list[dict[str, Any]] = []
    failures: list[PaddockError] = []
    granted = [*parse_grants(terms.grant), *capabilities]
    for index, server in enumerate(servers):
        if len(servers) > 1:
            print_message(f"[{index + 1}/{len(servers)}] {printable(server.title)}")
        retype = terms.retype() if terms.names or len(servers) == 1 else terms.retype(server.title)
        path = server.places[0].path
        try:
            body = {"settings_file": str(path.resolve()), "server": server.title, "capabilities": [*terms.capability]}
            result = {"server": server.title} | _import_server(api, server, body, granted, retype, terms)
            results.append(result)
            _report_copied_secrets(result, server.reading.all()[0], path)
            caged = not isinstance(server.reading.all()[0].manifest.runtime, RemoteRuntime)
            if caged:
                offer_trial(api, result, terms, failures)
            if terms.replace:
                start_server(api, server.title, result, terms, failures, caged=caged, quiet=as_json)
        except PaddockError as error:
            # One server's failure says nothing about the next.
            failures.append(error)
            results.append(_failed_result(server, error))
    if len(servers) > 1:
        _print_summary(results)
    needed = "taken_over" if terms.replace else "name"
    handed_over = [
        server for server, result in zip(servers, results, strict=True) if "error" not in result and result[needed]
    ]
    client_result = hand_over(handed_over, terms, failures, as_json=as_json)
    if as_json:
        print_json({"imported": results} | client_result | ({"error": error_to_json(failures[0])} if failures else {}))
    if failures:
        raise click.exceptions.Exit(exit_code(failures[0]))


def _failed_result(server: FoundServer, error: PaddockError) -> dict[str, Any]:
    """Report a server that was not imported, and return its result as JSON data."""
    from paddock.core.error_formats import error_to_json

    not_asked = isinstance(error, NeedsConsent) and error.error_code != "consent_refused"
    action = "waiting" if not_asked else "refused" if isinstance(error, NeedsConsent) else "failed"
    if error.error_code == "consent_refused":
        print_message(f"{styled('–', 'yellow')} left out {printable(server.title)}: you declined")
    else:
        print_error(error)
    return {"server": server.title, "name": server.name, "action": action, "error": error_to_json(error)}


def _import_server(
    api: ApiClient,
    server: FoundServer,
    body: Mapping[str, Any],
    granted: Sequence[Capability],
    retype: str,
    terms: ImportTerms,
) -> dict[str, Any]:
    """Show, confirm and install one server; as the package that its command would fetch, if it does that.

    Raises:
        Invalid: it has problems; carries all of them.
        PaddockError: see `install_package`.
    """
    from paddock.cli.commands.plugin.confirm_install import install_package
    from paddock.manifest.rules.readiness import FETCHED_AT_START
    from paddock.plugins.install.import_servers import find_server_package

    reading = server.reading
    package = find_server_package(reading.all()[0])
    offer = GrantOffer(server.title, terms.paths, asks=not terms.yes)

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

    result = install_package(
        api,
        body,
        granted,
        retype,
        yes=terms.yes,
        introduce=introduce,
        enables=terms.replace,
        choose_grants=offer.choose,
    )
    if result["action"] in ("unchanged", "upgraded") and terms.paths in ("read", "write"):
        print_message(f"  {styled('→', 'dim')} it keeps its grants; to add some: paddock plugin try {result['name']}")
    return result | {"missing_grants": offer.missing} | ({"package": package.typed_source} if package else {})


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
        is_done = "error" not in result and result.get("taken_over", True)
        mark = styled("✓", "green") if is_done else styled("–", "yellow")
        status = "waits for your yes" if result["action"] == "waiting" else result["action"]
        if "taken_over" in result:
            answers = result["taken_over"] or result.get("start", {}).get("answers", False)
            status += "; it answers" if answers else "; it does not answer"
            if not result["taken_over"]:
                status += f", {'but cannot save its changes, ' if answers else ''}and stays with your client"
        print_message(f"{mark} {printable(str(result['server']))}: {status}")
