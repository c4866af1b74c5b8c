"""The list of servers that were found, and the question which of them to import."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from paddock.cli.commands.mcp_import.found_servers import Discovery, FoundServer, require_distinct, select_servers
from paddock.cli.output.report import format_table, print_error, print_message, print_problems, print_result
from paddock.core.error_formats import error_to_json
from paddock.core.errors import PaddockError
from paddock.plugins.store.rows import VersionRow

_STATE_TEXTS = {
    "new": "new",
    "imported": "imported",
    "changed": "changed since its import",
    "name_taken": "another plugin has its name",
    "invalid": "cannot be imported",
}
QUESTION = "Import which? Numbers or names, or all; nothing leaves all as it is: "


def print_found(discovery: Discovery, installed: Mapping[str, VersionRow]) -> None:
    """Print every server with its clients, its command and whether it is imported; then every mistake."""
    rows = [
        (
            str(number),
            server.title,
            ", ".join(dict.fromkeys(place.client_title for place in server.places)),
            _STATE_TEXTS[server.state(installed)],
            server.command_text,
        )
        for number, server in enumerate(discovery.servers, 1)
    ]
    if rows:
        for line in format_table(("", "SERVER", "CLIENT", "STATE", "COMMAND"), rows):
            print_result(line)
    else:
        print_message("No MCP client on this machine has servers in its settings.")
    for server in discovery.servers:
        print_problems(server.reading.errors, "✗", "red")
    for failure in discovery.failures:
        print_error(failure)
    if rows:
        print_message("Import them: paddock import NAME, or --all; with --replace your clients use Paddock instead.")


def found_to_json(discovery: Discovery, installed: Mapping[str, VersionRow]) -> dict[str, Any]:
    """Return the servers that were found, and the files that could not be read."""
    servers = [
        {
            "server": server.title,
            "name": server.name,
            "state": server.state(installed),
            "command": server.command_text,
            "clients": [{"client": place.client, "file": str(place.path)} for place in server.places],
            "errors": [problem.to_dict() for problem in server.reading.errors],
        }
        for server in discovery.servers
    ]
    return {"servers": servers, "unreadable": [error_to_json(failure) for failure in discovery.failures]}


def ask_for_servers(servers: Sequence[FoundServer]) -> list[FoundServer]:
    """Ask which servers to import, until the answer can be understood; an empty one means none."""
    while True:
        sys.stderr.write(QUESTION)
        sys.stderr.flush()
        words = sys.stdin.readline().replace(",", " ").split()
        if not words:
            return []
        numbers = {int(word) for word in words if word.isdecimal() and 0 < int(word) <= len(servers)}
        names = [word for word in words if not (word.isdecimal() and int(word) in numbers)]
        try:
            named = select_servers(servers, () if names == ["all"] else names, "the list") if names else []
            return require_distinct(
                [server for number, server in enumerate(servers, 1) if number in numbers or server in named]
            )
        except PaddockError as error:
            print_error(error)
