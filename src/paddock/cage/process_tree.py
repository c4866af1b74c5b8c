"""What the kernel tells about processes that are not our children: when they began, and what they started."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def started_at(pid: int) -> int | None:
    """When a process began, in ticks; together with the pid it names a process for good. None when there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The program's name stands in brackets and may hold anything, brackets too.
    return int(text.rpartition(")")[2].split()[19])


def children(pid: int) -> list[int]:
    """The processes that this one started, whichever thread did, or that were handed to it."""
    found: list[int] = []
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
        for thread in threads:
            found += [int(child) for child in (thread / "children").read_text().split()]
    except OSError:
        # Gone while we looked.
        return found
    return found


def family(pid: int) -> list[int]:
    """The process and everything below it, parents first."""
    found = [pid]
    for member in found:
        # Grows while it is walked: that is the walk.
        found += [child for child in children(member) if child not in found]
    return found
