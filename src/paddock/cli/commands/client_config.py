"""An MCP client's settings file: the snippet to paste, and its atomic replacement with a backup."""

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
WILDCARD_ADDRESSES = ("0.0.0.0", "[::]")  # noqa: S104 - a daemon may listen on them, but no client connects to them
TOKEN_PLACEHOLDER = "KEY"  # noqa: S105 - a placeholder for the person's own key


def replace_text(path: Path, before: str, after: str) -> Path:
    """Replace a file's text atomically and return the path of its backup.

    The file keeps its mode and owner, and a symbolic link stays one. The backup is readable by its owner only: such
    files contain keys.

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
        status = real.stat()
        backup = _write_backup(real, before)
        try:
            _replace_atomically(real, after, status)
        except BaseException:
            backup.unlink(missing_ok=True)  # a copy of the unchanged file, with its keys
            raise
        sync_directory(real.parent)
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be written: {error.strerror}",
            code="import.unwritable",
            hint="look at who may write it, or paste the lines yourself",
        ) from None
    return backup


def _write_backup(real: Path, text: str) -> Path:
    for number in count(1):
        backup = real.with_name(f"{real.name}{BACKUP_SUFFIX}" + (f"-{number}" if number > 1 else ""))
        with suppress(FileExistsError):
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _write_file(descriptor, text)
            return backup
    raise AssertionError("numbers do not end")


def _replace_atomically(real: Path, text: str, status: os.stat_result) -> None:
    descriptor, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        _write_file(descriptor, text, status)
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write_file(descriptor: int, text: str, status: os.stat_result | None = None) -> None:
    with open(descriptor, "wb") as file:
        if status is not None:
            os.fchmod(descriptor, status.st_mode & 0o777)
            if (os.geteuid(), os.getegid()) != (status.st_uid, status.st_gid):
                os.fchown(descriptor, status.st_uid, status.st_gid)
        file.write(text.encode())
        file.flush()
        os.fsync(descriptor)


@dataclass(frozen=True, slots=True)
class McpClientSettings:
    """A client's settings file as it was read."""

    path: Path
    text: str
    form: str
    paddock_entries: frozenset[str] = frozenset()  # names of the entries that are Paddock itself

    def stdio(self) -> dict[str, Any]:
        """Return the entry with which the client starts Paddock, with this command's home."""
        home = os.environ.get("PADDOCK_HOME")
        return stdio_entry(self.form, {"PADDOCK_HOME": home} if home else {})


def read_client_settings(path: Path) -> McpClientSettings | None:
    """Read a client's settings; None if the file lists no servers, as a package does not."""
    try:
        text = path.read_bytes().decode()
        lists = parse_server_lists(path.name, text)
    except (OSError, ValueError, Invalid):
        return None
    entries = [entry for servers in lists for entry in servers.holder.within(servers.key).value.items()]
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


def print_client_snippet(client: McpClientSettings, http: HttpSettings, *, as_json: bool) -> dict[str, Any]:
    """Print the snippet to paste into the client's settings, and return it as JSON data."""
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
            print_message("or, while `paddock serve` runs, over HTTP with a key of `paddock apikey add`:")
            print_result(json.dumps(over_http, indent=2))
        if shutil.which(SERVER_COMMAND[0]) is None:
            program = printable(str(Path(sys.argv[0]).resolve()), 400)
            print_message(
                f"{styled('!', 'yellow')} your client has to find `paddock`; where it does not, write {program}"
            )
    return {"stdio": stdio, "http": over_http}


def _mcp_url(http: HttpSettings) -> str | None:
    """Return the URL of `/mcp`; None if HTTP is off or only the daemon knows the port."""
    if http.public_url:
        return f"{http.public_url.rstrip('/')}/mcp"
    host, _, port = http.address.rpartition(":")
    if not host or port == "0":  # off, or any port that is free
        return None
    return f"http://{'127.0.0.1' if host in WILDCARD_ADDRESSES else host}:{port}/mcp"


def update_client_settings(
    client: McpClientSettings, imported: Sequence[str], retype: str, *, yes: bool
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
    backup_path = replace_text(client.path, client.text, after)
    print_message(
        f"{styled('✓', 'green')} {path_text} has Paddock in place of {names};"
        f" what it was: {printable(str(backup_path), 400)}"
    )
    return {"written": str(client.path), "backup": str(backup_path)}
