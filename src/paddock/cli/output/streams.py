"""Set-up and final flush of stdout and stderr. Imports nothing that `--help` does not need."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path


def configure_streams() -> None:
    """Escape characters that the terminal's encoding lacks, and replace closed streams by a null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - stays open until exit
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_streams(status: int) -> int:
    """Flush stdout and return the exit code: a result that could not be written is a failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        from paddock.core.error_formats import EXIT_BROKEN_PIPE

        status = EXIT_BROKEN_PIPE
    except OSError as error:
        from paddock.cli.output.report import output_write_error, report_error

        if status == 0:
            status = report_error(output_write_error(error), as_json=False)
    else:
        return status
    # Python flushes again at exit, and would print another error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
