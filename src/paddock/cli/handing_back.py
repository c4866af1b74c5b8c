"""After an import: what a client is told so that it reaches its servers through Paddock, and writing it there."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.cli.client_file import KEPT, replace_text
from paddock.cli.consent import confirm
from paddock.cli.output import result, say, styled
from paddock.config.settings import HttpSettings
from paddock.core.errors import Invalid, OperatorError
from paddock.core.printable import printable
from paddock.manifest.client_settings import (
    COMMAND,
    is_paddock,
    lists_of,
    reached_by_client,
    snippet,
    started_by_client,
    with_paddock,
)

EVERY_ADDRESS = ("0.0.0.0", "[::]")  # noqa: S104 - where a daemon may listen, and no client asks
TOKEN = "KEY"  # noqa: S105 - stands where a person puts theirs


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of a client as they were read."""

    path: Path
    text: str
    form: str
    own: frozenset[str] = frozenset()  # the servers that are Paddock itself

    def stdio(self) -> dict[str, Any]:
        """How the client starts Paddock, with the home that this command has."""
        home = os.environ.get("PADDOCK_HOME")
        return started_by_client(self.form, {"PADDOCK_HOME": home} if home else {})


def client_settings(path: Path) -> ClientSettings | None:
    """The settings in a file; None where it lists no servers, as a package does not."""
    try:
        text = path.read_bytes().decode()
        lists = lists_of(path.name, text)
    except (OSError, ValueError, Invalid):
        return None
    listed = [one for servers in lists for one in servers.holder.within(servers.key).value.items()]
    own = frozenset(title for title, server in listed if is_paddock(server))
    return ClientSettings(path, text, lists[0].form, own) if lists else None


def require_client(client: ClientSettings | None, path: Path) -> ClientSettings:
    """Refuse to write into what is no client's settings.

    Raises:
        OperatorError: it is none.
    """
    if client is None:
        raise OperatorError(
            f"{path.name} is no client's settings, so nothing can be replaced in it",
            code="import.no_client_settings",
            hint="import it without --replace, and paste the lines that are printed into your client's settings",
        )
    return client


def tell_client(client: ClientSettings, http: HttpSettings, *, as_json: bool) -> dict[str, Any]:
    """Print what is pasted into the client's settings; the same as data."""
    stdio = snippet(client.form, client.stdio())
    url = _url(http)
    over_http = snippet(client.form, reached_by_client(url, TOKEN)) if url else None
    if not as_json:
        say()
        say(f"All of them through one endpoint: paste this into {printable(client.path.name)} in place of the servers")
        result(json.dumps(stdio, indent=2))
        if over_http is not None:
            say("or, while `paddock serve` runs, over HTTP with a key of `paddock apikey create`:")
            result(json.dumps(over_http, indent=2))
        if shutil.which(COMMAND[0]) is None:
            program = printable(str(Path(sys.argv[0]).resolve()), 400)
            say(f"{styled('!', 'yellow')} your client has to find `paddock`; where it does not, write {program}")
    return {"stdio": stdio, "http": over_http}


def _url(http: HttpSettings) -> str | None:
    """Where clients reach `/mcp`; None where only the daemon knows, or nobody does."""
    if http.public_url:
        return f"{http.public_url.rstrip('/')}/mcp"
    host, _, port = http.address.rpartition(":")
    if not host or port == "0":  # off, or any port that is free
        return None
    return f"http://{'127.0.0.1' if host in EVERY_ADDRESS else host}:{port}/mcp"


def write_back(client: ClientSettings, taken: Sequence[str], retype: str, *, yes: bool) -> dict[str, Any]:
    """Put Paddock into the client's settings in place of the servers that were taken over, once a person says yes.

    Raises:
        NeedsConsent: they do not.
        PaddockError: it cannot be written, or is not what was read any more.
    """
    after = with_paddock(client.path.name, client.text, frozenset(taken), client.stdio())
    shown = printable(str(client.path), 400)
    named = printable(", ".join(taken), 400)
    question = f"Replace {named} in {shown} by Paddock? What it is now is kept beside it, as {client.path.name}{KEPT}."
    confirm(question, yes=yes, retype=f"{retype} --replace")
    kept = replace_text(client.path, client.text, after)
    say(f"{styled('✓', 'green')} {shown} has Paddock in place of {named}; what it was: {printable(str(kept), 400)}")
    return {"written": str(client.path), "backup": str(kept)}
