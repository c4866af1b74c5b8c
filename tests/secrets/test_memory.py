"""What a process that holds keys has in its memory is for nobody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fixtures.commands import Paddock
from fixtures.daemons import daemon

LOOKED_AT = """
import ctypes
from paddock.daemon.run import disable_core_dumps
dumpable = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
before = dumpable()
disable_core_dumps()
print(before, dumpable())
"""


def test_no_core_dump_is_made_of_a_daemon_whoever_would_get_it(paddock: Paddock) -> None:
    with daemon(paddock) as running:
        limits = Path(f"/proc/{running.process.pid}/limits").read_text().splitlines()
    (core,) = (line.split()[4:6] for line in limits if line.startswith("Max core file size"))
    assert core in (["1", "1"], ["0", "0"]), "one byte is what the kernel takes for none at all"


def test_nobody_of_the_same_name_reads_the_memory_of_a_process_that_holds_keys() -> None:
    said = subprocess.run([sys.executable, "-c", LOOKED_AT], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["1", "0"]
