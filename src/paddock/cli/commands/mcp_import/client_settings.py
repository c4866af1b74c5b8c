"""An MCP client's settings file as an import sees it: the snippet to paste, and its replacement."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from paddock.cli.commands.mcp_import.replacement_log import BACKUP_SUFFIX, ReplacementLog, read_settings_text
from paddock.cli.output.consent_prompt import confirm
from paddock.cli.output.report import print_message, print_result, styled
from paddock.config.directories import directory_variables
from paddock.config.settings import HttpSettings
from paddock.core.errors import Invalid, OperatorError
from paddock.core.printable import printable
from paddock.manifest.client_config import (
    SERVER_NAME,
    config_snippet,
    format_snippet,
    http_entry,
    is_paddock,
    parse_server_lists,
    replace_with_paddock,
    stdio_entry,
)
from paddock.manifest.dialects.mcp_server_lists import MCP_SERVERS, VSCODE

WILDCARD_ADDRESSES = ("0.0.0.0", "[::]")  # noqa: S104 - a daemon may listen on them, but no client connects to them
TOKEN_PLACEHOLDER = "KEY"  # noqa: S105 - a placeholder for the person's own key


class McpClientSettings(Struct, frozen=True):
    """A client's settings file as it was read."""

    path: Path
    text: str
    form: str
    paddock_entries: frozenset[str] = frozenset()  # names of the entries that are Paddock itself

    def stdio(self) -> dict[str, Any]:
        """Return the entry with which the client starts this installation of Paddock, with this command's home."""
        return stdio_entry(self.form, paddock_command(), directory_variables(os.environ))


def paddock_command() -> list[str]:
    """Return the command of this installation by its absolute path: a client may have another PATH."""
    script = Path(sys.executable).parent / SERVER_NAME  # not resolved: the interpreter of an environment is a link
    if os.access(script, os.X_OK):
        return [str(script.absolute())]
    return [str(Path(sys.executable).absolute()), "-m", "paddock.cli"]


def read_client_settings(path: Path) -> McpClientSettings | None:
    """Read a client's settings; None if the file lists no servers, as a package does not."""
    try:
        text = read_settings_text(path)
        lists = parse_server_lists(path.name, text)
    except (OSError, ValueError, Invalid):
        return None
    entries = [entry for servers in lists for entry in servers.servers.items()]
    paddock_entries = frozenset(title for title, server in entries if is_paddock(server))
    return McpClientSettings(path, text, lists[0].form, paddock_entries) if lists else None


def require_client_settings(client: McpClientSettings | None, path: Path) -> McpClientSettings:
    """Check that the file is a client's settings.

    Raises:
        OperatorError: it is not.
    """
    if client is None:
        raise OperatorError(
            f"{path.name} is no client's settings, so nothing can be replaced in it",
            code="import.no_client_settings",
            hint="import it without --replace, and paste the lines that are printed into your client's settings",
        )
    return client


def print_client_snippet(client: McpClientSettings, mcp_url: str | None, *, as_json: bool) -> dict[str, Any]:
    """Print the snippet to paste into the client's settings, and return it as JSON data."""
    stdio = config_snippet(client.form, client.stdio())
    url = mcp_url if client.form in (MCP_SERVERS, VSCODE) else None
    over_http = config_snippet(client.form, http_entry(url, TOKEN_PLACEHOLDER)) if url else None
    if not as_json:
        print_message()
        print_message(
            f"All of them through one endpoint: paste this into {printable(client.path.name)} in place of the servers"
        )
        print_result(format_snippet(client.form, stdio))
        if over_http is not None:
            print_message("or, while `paddock serve` runs, over HTTP with a key of `paddock apikey add`:")
            print_result(format_snippet(client.form, over_http))
    return {"stdio": stdio, "http": over_http}


def find_mcp_url(http: HttpSettings, published: str | None) -> str | None:
    """Return the URL of `/mcp`; None if HTTP is off or only a daemon would know the port.

    Args:
        http: The settings.
        published: The URL at which a daemon listens now; `serve --port` may differ from the settings.
    """
    if known := http.public_url or published:
        return f"{known.rstrip('/')}/mcp"
    host, _, port = http.address.rpartition(":")
    if not host or port == "0":  # off, or any port that is free
        return None
    return f"http://{'127.0.0.1' if host in WILDCARD_ADDRESSES else host}:{port}/mcp"


def update_client_settings(
    client: McpClientSettings, imported: Sequence[str], log: ReplacementLog, retype: str, *, yes: bool
) -> dict[str, Any]:
    """After confirmation, replace the imported servers in the client's settings by Paddock.

    Raises:
        NeedsConsent: the person declined.
        PaddockError: the file cannot be written, or changed since it was read.
    """
    after = replace_with_paddock(client.path.name, client.text, frozenset(imported), client.stdio())
    path_text = printable(str(client.path), 400)
    names = printable(", ".join(imported), 400)
    backup = f"{client.path.name}{BACKUP_SUFFIX}"
    question = f"Replace {names} in {path_text} by Paddock? What it is now is kept beside it, as {backup}."
    confirm(question, yes=yes, retype=f"{retype} --replace")
    backup_path = log.replace(client.path, client.text, after, list(imported))
    print_message(
        f"{styled('✓', 'green')} {path_text} has Paddock in place of {names};"
        f" what it was: {printable(str(backup_path), 400)}"
    )
    return {"written": str(client.path), "backup": str(backup_path)}
