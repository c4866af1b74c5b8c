"""A client's settings file, written anew: in one step for every reader, with what it was kept beside it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from paddock.cli.output.consent_prompt import confirm
from paddock.cli.output.report import print_message, print_result, styled
from paddock.config.settings import HttpSettings
from paddock.core.errors import Conflict, Invalid, OperatorError
from paddock.core.printable import printable
from paddock.manifest.client_config import (
    SERVER_COMMAND,
    config_snippet,
    http_entry,
    is_paddock,
    parse_server_lists,
    replace_with_paddock,
    stdio_entry,
)
from paddock.store.filesystem import sync_directory

BACKUP_SUFFIX = ".before-paddock"


def replace_text(path: Path, before: str, after: str) -> Path:
    """Write a file anew, and keep what it was; where that is kept.

    The file keeps its mode and its owner, and a link to it stays one. The copy is for its owner alone: such files hold
    keys.

    Raises:
        Conflict: it changed since it was read.
        OperatorError: it cannot be written.
    """
    real = Path(os.path.realpath(path))
    try:
        if real.read_bytes() != before.encode():
            raise Conflict(
                f"{path} changed while you were deciding", code="import.file_changed", hint="run the command again"
            )
        known = real.stat()
        kept = _write_backup(real, before)
        try:
            _replace_atomically(real, after, known)
        except BaseException:
            kept.unlink(missing_ok=True)  # it is a copy of what still stands there, with its keys
            raise
        sync_directory(real.parent)
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be written: {error.strerror}",
            code="import.unwritable",
            hint="look at who may write it, or paste the lines yourself",
        ) from None
    return kept


def _write_backup(real: Path, text: str) -> Path:
    for number in count(1):
        kept = real.with_name(f"{real.name}{BACKUP_SUFFIX}" + (f"-{number}" if number > 1 else ""))
        with suppress(FileExistsError):
            descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _write_file(descriptor, text)
            return kept
    raise AssertionError("numbers do not end")


def _replace_atomically(real: Path, text: str, known: os.stat_result) -> None:
    descriptor, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        _write_file(descriptor, text, known)
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write_file(descriptor: int, text: str, known: os.stat_result | None = None) -> None:
    with open(descriptor, "wb") as file:
        if known is not None:
            os.fchmod(descriptor, known.st_mode & 0o777)
            if (os.geteuid(), os.getegid()) != (known.st_uid, known.st_gid):
                os.fchown(descriptor, known.st_uid, known.st_gid)
        file.write(text.encode())
        file.flush()
        os.fsync(descriptor)


WILDCARD_ADDRESSES = ("0.0.0.0", "[::]")  # noqa: S104 - where a daemon may listen, and no client asks
TOKEN_PLACEHOLDER = "KEY"  # noqa: S105 - stands where a person puts theirs


@dataclass(frozen=True, slots=True)
class McpClientSettings:
    """The settings of a client as they were read."""

    path: Path
    text: str
    form: str
    paddock_entries: frozenset[str] = frozenset()  # the servers that are Paddock itself

    def stdio(self) -> dict[str, Any]:
        """How the client starts Paddock, with the home that this command has."""
        home = os.environ.get("PADDOCK_HOME")
        return stdio_entry(self.form, {"PADDOCK_HOME": home} if home else {})


def read_client_settings(path: Path) -> McpClientSettings | None:
    """The settings in a file; None where it lists no servers, as a package does not."""
    try:
        text = path.read_bytes().decode()
        lists = parse_server_lists(path.name, text)
    except (OSError, ValueError, Invalid):
        return None
    listed = [one for servers in lists for one in servers.holder.within(servers.key).value.items()]
    own = frozenset(title for title, server in listed if is_paddock(server))
    return McpClientSettings(path, text, lists[0].form, own) if lists else None


def require_client_settings(client: McpClientSettings | None, path: Path) -> McpClientSettings:
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


def print_client_snippet(client: McpClientSettings, http: HttpSettings, *, as_json: bool) -> dict[str, Any]:
    """Print what is pasted into the client's settings; the same as data."""
    stdio = config_snippet(client.form, client.stdio())
    url = _mcp_url(http)
    over_http = config_snippet(client.form, http_entry(url, TOKEN_PLACEHOLDER)) if url else None
    if not as_json:
        print_message()
        print_message(
            f"All of them through one endpoint: paste this into {printable(client.path.name)} in place of the servers"
        )
        print_result(json.dumps(stdio, indent=2))
        if over_http is not None:
            print_message("or, while `paddock serve` runs, over HTTP with a key of `paddock apikey create`:")
            print_result(json.dumps(over_http, indent=2))
        if shutil.which(SERVER_COMMAND[0]) is None:
            program = printable(str(Path(sys.argv[0]).resolve()), 400)
            print_message(
                f"{styled('!', 'yellow')} your client has to find `paddock`; where it does not, write {program}"
            )
    return {"stdio": stdio, "http": over_http}


def _mcp_url(http: HttpSettings) -> str | None:
    """Where clients reach `/mcp`; None where only the daemon knows, or nobody does."""
    if http.public_url:
        return f"{http.public_url.rstrip('/')}/mcp"
    host, _, port = http.address.rpartition(":")
    if not host or port == "0":  # off, or any port that is free
        return None
    return f"http://{'127.0.0.1' if host in WILDCARD_ADDRESSES else host}:{port}/mcp"


def update_client_settings(
    client: McpClientSettings, taken: Sequence[str], retype: str, *, yes: bool
) -> dict[str, Any]:
    """Put Paddock into the client's settings in place of the servers that were taken over, once a person says yes.

    Raises:
        NeedsConsent: they do not.
        PaddockError: it cannot be written, or is not what was read any more.
    """
    after = replace_with_paddock(client.path.name, client.text, frozenset(taken), client.stdio())
    shown = printable(str(client.path), 400)
    named = printable(", ".join(taken), 400)
    backup = f"{client.path.name}{BACKUP_SUFFIX}"
    question = f"Replace {named} in {shown} by Paddock? What it is now is kept beside it, as {backup}."
    confirm(question, yes=yes, retype=f"{retype} --replace")
    kept = replace_text(client.path, client.text, after)
    print_message(
        f"{styled('✓', 'green')} {shown} has Paddock in place of {named}; what it was: {printable(str(kept), 400)}"
    )
    return {"written": str(client.path), "backup": str(kept)}
