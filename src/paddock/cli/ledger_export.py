"""What `paddock ledger export` does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from paddock.cli.opening import reading
from paddock.cli.output import result, unwritten
from paddock.ledger.checkpoint import checkpoint_file, whole_lines
from paddock.ledger.export import export


def export_to(file: Path | None, tenant: str) -> tuple[int, int]:
    """Write the lines into a file that only its owner can read, or to stdout; gives how many there were of each.

    Raises:
        HostError: it cannot be written.
    """
    if file is None:
        return _export(tenant, lambda line: result(line.decode()))
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            return _export(tenant, lambda line: opened.writelines((line, b"\n")))
    except OSError as error:
        raise unwritten(error) from error


def _export(tenant: str, write: Callable[[bytes], object]) -> tuple[int, int]:
    lines = 0
    with reading() as host:
        # Read first: then every row that they are over is there.
        signed = whole_lines(checkpoint_file(host.directories.state, tenant))
        for lines, line in enumerate(export(host.plugins.database, tenant, signed)):  # noqa: B007 - the last is the head
            write(line)
    return lines - len(signed), len(signed)
