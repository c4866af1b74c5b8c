"""Writes the package that was proposed for a server file into a folder, where its author edits it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.cli.output.report import print_message, styled
from paddock.core.errors import Conflict, OperatorError
from paddock.core.printable import printable


def save_package(proposal: Mapping[str, Any], file: Path, folder: Path) -> dict[str, Any]:
    """Write the package, and say what comes next. Returns the result as JSON data.

    Args:
        proposal: The proposal of the installation.
        file: The server file.
        folder: The folder, which must not exist yet.

    Raises:
        Conflict: the folder exists.
        OperatorError: it cannot be written.
    """
    server = proposal["server"]
    shown = printable(str(folder))
    try:
        folder.mkdir(parents=True)
        for name, text in server["written"].items():
            (folder / name).write_text(text, encoding="utf-8")
        shutil.copy(file, folder / server["file"])
    except FileExistsError:
        raise Conflict(
            f"{shown} exists already, and nothing was changed", code="new.exists", hint="name a new folder"
        ) from None
    except OSError as error:
        raise OperatorError(
            f"cannot write {shown}: {error.strerror}", code="new.unwritable", hint="name another folder"
        ) from error
    files = sorted([*server["written"], server["file"]])
    print_message(f"{styled('✓', 'green')} wrote {', '.join(files)} to {shown}; nothing is installed")
    print_message(f"  {styled('→', 'dim')} edit {shown}/paddock.yaml, then: paddock plugin install {shown}")
    if len(server["written"]) > 1:
        print_message("  a host installs a folder with packages of its own only with plugins.environments = true")
    return {
        "name": proposal["name"],
        "version": proposal["version"],
        "action": "saved",
        "folder": str(folder),
        "files": files,
    }
