"""The implementation of `paddock ledger export`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from paddock.cli.client.local_store import open_for_read
from paddock.cli.output.report import print_result
from paddock.core.errors import OperatorError
from paddock.ledger.chain.chains import require_chain
from paddock.ledger.chain.checkpoint import checkpoint_file, read_checkpoint_lines
from paddock.ledger.chain.export import export_chain


def write_export(file: Path | None, tenant: str) -> tuple[int, int]:
    """Write the chain to a file readable by its owner only, or to stdout.

    Returns the numbers of entries and of checkpoints.

    Raises:
        NotFound: there is no such tenant; an existing file is left unchanged.
        OperatorError: the file cannot be written.
        HostError: stdout cannot.
    """
    with open_for_read() as store:
        database, state = store.plugins.database, store.directories.state
        require_chain(database, state, tenant)
        # Read first, so that every row that they cover is present.
        checkpoints = read_checkpoint_lines(checkpoint_file(state, tenant))
        lines = export_chain(database, tenant, checkpoints)
        line_count = (
            _write_lines(lines, lambda line: print_result(line.decode()))
            if file is None
            else _write_private_file(file, lines)
        )
    return line_count - len(checkpoints) - 1, len(checkpoints)  # one line states where the chain ends


def _write_private_file(file: Path, lines: Iterable[bytes]) -> int:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            return _write_lines(lines, lambda line: stream.writelines((line, b"\n")))
    except OSError as error:
        raise OperatorError(
            f"cannot write {file}: {error.strerror}",
            code="ledger.export_unwritable",
            hint="name a file in a folder that exists and that you may write to",
        ) from error


def _write_lines(lines: Iterable[bytes], write: Callable[[bytes], object]) -> int:
    count = 0
    for line in lines:
        write(line)
        count += 1
    return count
