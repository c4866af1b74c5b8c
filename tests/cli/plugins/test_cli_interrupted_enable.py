"""`paddock plugin enable` is interrupted while the plugin starts: it stays disabled."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually
from fixtures.packages import native, write_file

HANGS = """
import time
open({started!r}, "w").close()
time.sleep(600)
"""


@pytest.mark.parametrize("with_daemon", [True, False])
def test_a_plugin_whose_start_is_interrupted_stays_disabled(paddock: Paddock, source: Path, with_daemon: bool) -> None:
    (source / "docs").mkdir(parents=True)
    started, may_write = source / "docs" / "started", f"write:fs:{source / 'docs'}"
    native(source / "notes", runtime={"command": ["python3", "./main.py"]}, capabilities=[may_write])
    write_file(source / "notes" / "main.py", HANGS.format(started=str(started)))
    paddock.quickly("plugin", "install", source / "notes", "--yes", "--grant", may_write)
    with daemon(paddock) if with_daemon else nullcontext():
        with paddock.start("plugin", "enable", "notes") as process:
            eventually(started.exists, "the plugin has started")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        eventually(lambda: not paddock.quickly("plugin", "show", "notes", "--json").json["enabled"], "it is disabled")
    (entry,) = paddock.quickly("ledger", "tail", "--type", "plugin.disabled", "--json").json["entries"]
    assert entry["facts"]["reason"] == "did not start"
