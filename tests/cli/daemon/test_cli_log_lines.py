"""The daemon's own log: whatever words it repeats, a line of theirs never looks like one of ours."""

from __future__ import annotations

import logging

from paddock.daemon.log_format import TextLogFormatter


def test_a_traceback_is_indented_and_printable() -> None:
    error = ValueError("\x1b[2Jgone\n2026-01-31T12:00:00Z info paddock.web: forged")
    record = logging.LogRecord("paddock", logging.ERROR, "", 0, "failed", None, (ValueError, error, None))

    first, *rest = TextLogFormatter().format(record).split("\n")

    assert first.endswith("error paddock: failed")
    assert rest and all(line.startswith("  ") and line.isprintable() for line in rest)
