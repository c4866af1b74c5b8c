"""A cage's share of the CPU where no group of the kernel holds it: its processes step back for others, as `nice` does.

What this does not buy: each process counts for itself, so a plugin with many of them gets more. And nothing stands for
a quota here: whoever steps back for nobody may use everything.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

ORDINARY_WEIGHT = 1024
_STEP = 1.25  # by how much each degree of niceness lowers the kernel's weight of a process
_NICEST = 19


def niceness(cpu_weight: int) -> int:
    """The niceness whose weight is nearest to this one, on the scale where an ordinary process has 1024.

    Never below 0: that would be going before others, which takes a privilege and is nobody's to grant.
    """
    return min(_NICEST, max(0, round(math.log(ORDINARY_WEIGHT / cpu_weight, _STEP))))


def step_back(pid: int, cpu_weight: int) -> None:
    """Have a process, and what it starts from now on, step back as its weight asks. It cannot undo that.

    Raises:
        OSError: it is gone.
    """
    degree = niceness(cpu_weight)
    os.setpriority(os.PRIO_PROCESS, pid, max(degree, os.getpriority(os.PRIO_PROCESS, pid)))
    # Where the kernel shares the CPU among sessions first, niceness counts only within one, and a cage is one.
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(degree))
