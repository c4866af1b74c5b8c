"""`paddock import --undo`: puts back the servers that Paddock took the place of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from paddock.cli.commands.mcp_import.replacement_log import Replacement, ReplacementLog
from paddock.cli.output.report import print_error, print_json, print_message, styled
from paddock.config.directories import Directories
from paddock.core.error_formats import error_to_json, exit_code
from paddock.core.errors import NotFound, PaddockError
from paddock.core.printable import printable

_OUTCOMES = {
    "restored": "is what it was before",
    "servers restored": "has its servers again; what else changed in it was kept",
    "unchanged": "already had its servers again",
}


def undo_replacements(directories: Directories, file: Path | None, *, as_json: bool) -> None:
    """Undo the replacements in this file, or all of them, newest first.

    Raises:
        NotFound: there is none.
        PaddockError: a file cannot be restored.
    """
    log = ReplacementLog(directories.state)
    real = None if file is None else os.path.realpath(file)
    entries = [entry for entry in reversed(log.read()) if real in (None, entry.file)]
    if not entries:
        where = f" in {file}" if file else ""
        raise NotFound(f"Paddock has replaced no servers{where}", code="import.nothing_to_undo")
    results: list[dict[str, Any]] = []
    failures: list[PaddockError] = []
    blocked: set[str] = set()
    for entry in entries:
        if entry.file not in blocked:
            try:
                results.append(_undo(log, entry))
            except PaddockError as error:
                blocked.add(entry.file)  # older ones in the same file come after this one
                failures.append(error)
                print_error(error)
                results.append({"file": entry.file, "error": error_to_json(error)})
    if as_json:
        print_json({"undone": results} | ({"error": error_to_json(failures[0])} if failures else {}))
    if any("outcome" in result for result in results):
        print_message("The imported plugins stay installed; remove them with paddock plugin remove.")
    if failures:
        raise click.exceptions.Exit(exit_code(failures[0]))


def _undo(log: ReplacementLog, entry: Replacement) -> dict[str, Any]:
    outcome = log.undo(entry)
    print_message(f"{styled('✓', 'green')} {printable(entry.file, 400)} {_OUTCOMES[outcome]}")
    return {"file": entry.file, "outcome": outcome, "servers": entry.replaced}
