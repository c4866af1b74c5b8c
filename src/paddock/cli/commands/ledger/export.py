"""What `paddock ledger export` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from paddock.cli.client.one_shot import open_for_read
from paddock.cli.output.report import output_write_error, print_result
from paddock.ledger.chain.chains import require_chain
from paddock.ledger.chain.checkpoint import checkpoint_file, read_checkpoint_lines
from paddock.ledger.chain.export import export_chain


def write_export(file: Path | None, tenant: str) -> tuple[int, int]:
    """Write the lines into a file that only its owner can read, or to stdout; gives how many there were of each.

    Raises:
        NotFound: there is no such tenant; a file of that name stays as it was.
        HostError: it cannot be written.
    """
    with open_for_read() as host:
        database, state = host.plugins.database, host.directories.state
        require_chain(database, state, tenant)
        # Read first: then every row that they are over is there.
        signed = read_checkpoint_lines(checkpoint_file(state, tenant))
        lines = export_chain(database, tenant, signed)
        written = (
            _write_lines(lines, lambda line: print_result(line.decode()))
            if file is None
            else _write_private_file(file, lines)
        )
    return written - len(signed) - 1, len(signed)  # one says where the chain ends


def _write_private_file(file: Path, lines: Iterable[bytes]) -> int:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            return _write_lines(lines, lambda line: opened.writelines((line, b"\n")))
    except OSError as error:
        raise output_write_error(error) from error


def _write_lines(lines: Iterable[bytes], write: Callable[[bytes], object]) -> int:
    count = 0
    for line in lines:
        write(line)
        count += 1
    return count
