"""What `paddock ledger export` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from paddock.cli.opening import reading
from paddock.cli.output import result, unwritten
from paddock.ledger.checkpoint import checkpoint_file, whole_lines
from paddock.ledger.export import export
from paddock.ledger.whose import require_known


def export_to(file: Path | None, tenant: str) -> tuple[int, int]:
    """Write the lines into a file that only its owner can read, or to stdout; gives how many there were of each.

    Raises:
        NotFound: there is no such tenant; a file of that name stays as it was.
        HostError: it cannot be written.
    """
    with reading() as host:
        database, state = host.plugins.database, host.directories.state
        require_known(database, state, tenant)
        # Read first: then every row that they are over is there.
        signed = whole_lines(checkpoint_file(state, tenant))
        lines = export(database, tenant, signed)
        written = _write(lines, lambda line: result(line.decode())) if file is None else _write_to(file, lines)
    return written - len(signed) - 1, len(signed)  # one says where the chain ends


def _write_to(file: Path, lines: Iterable[bytes]) -> int:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            return _write(lines, lambda line: opened.writelines((line, b"\n")))
    except OSError as error:
        raise unwritten(error) from error


def _write(lines: Iterable[bytes], write: Callable[[bytes], object]) -> int:
    count = 0
    for line in lines:
        write(line)
        count += 1
    return count
