"""stdout and stderr from the first moment of the program to its last. Imports nothing that `--help` does not need."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path


def configure_streams() -> None:
    """Where a terminal's encoding lacks a character, show its escape instead of failing; a closed stream is silent."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_streams(status: int) -> int:
    """Write out what is still held back, and give the exit code: a result that nobody could get is a failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        from paddock.core.error_mapping import EXIT_BROKEN_PIPE

        status = EXIT_BROKEN_PIPE
    except OSError as error:
        from paddock.cli.output.report import output_write_error, report_error

        if status == 0:
            status = report_error(output_write_error(error), as_json=False)
    else:
        return status
    # Python tries again when it ends, and would complain about that too.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
