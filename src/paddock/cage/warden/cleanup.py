"""Kills bubblewrap processes that a killed warden left behind, which would wait forever for their other half.

Everything in a cage dies with its warden, but for one instant: while bubblewrap's outer process, already bound to die
with us, has not yet told the inner one to go on. No plugin code runs in such a process, and none ever would.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from paddock.cage.plan.bwrap_arguments import INIT_BOOTSTRAP
from paddock.cage.zygote.warm_start import ZYGOTE_PROGRAM

_BWRAP_NAME = "bwrap"
_OUR_ARGUMENTS = frozenset(
    {INIT_BOOTSTRAP.encode(), ZYGOTE_PROGRAM.encode()}
)  # one of these arguments is in the command of every cage of ours


def kill_abandoned() -> None:
    """Kill every inner bubblewrap of a Paddock cage, ours or another daemon's, whose outer one is gone."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            # A process that is gone, or that we may not inspect, is not ours to kill.
            with contextlib.suppress(OSError):
                if _is_abandoned(process):
                    os.kill(int(process.name), signal.SIGKILL)


def _is_abandoned(process: Path) -> bool:
    name, parent = _name_and_parent(process)
    if name != _BWRAP_NAME or _name_and_parent(process.parent / parent)[0] == _BWRAP_NAME:
        return False
    arguments = (process / "cmdline").read_bytes().split(b"\0")
    return _is_namespace_init(process) and not _OUR_ARGUMENTS.isdisjoint(arguments)


def _is_namespace_init(process: Path) -> bool:
    """Whether it is the inner process; the outer one has a single pid."""
    lines = (process / "status").read_text().splitlines()
    pid_lists = [line.split()[1:] for line in lines if line.startswith("NSpid:")]
    return any(len(pids) > 1 and pids[-1] == "1" for pids in pid_lists)


def _name_and_parent(process: Path) -> tuple[str, str]:
    before, _, after = (process / "stat").read_text().rpartition(")")
    return before.partition("(")[2], after.split()[1]
