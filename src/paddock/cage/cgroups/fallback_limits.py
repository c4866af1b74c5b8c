"""Watches the memory of cages where no group of the kernel holds it: as an ordinary user without delegated cgroups.

A limit on each process alone (RLIMIT_DATA) does not bound many of them together; this does, half a second late. It
looks every time at numbers that cost next to nothing, and looks closer only when those could mean too much.

Memory that is shared and has no name counts in full from the moment it is mapped: a process may let go of its pages
(MADV_DONTNEED) so that none is seen to be its own, and the kernel keeps them all the same.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

from paddock.cage.linux import subtree_pids

MEMORY_CHECK_INTERVAL_S = 0.5

# A process's own pages, in memory and swapped out, and the tables that find them.
_PRIVATE_FIELDS = ("RssAnon", "VmSwap", "VmPTE")
# What can hold no shared memory: private data, stacks, programs. The rest of all addresses could.
_NEVER_SHARED_FIELDS = ("VmData", "VmStk", "VmExe", "VmLib")
_ANONYMOUS_SHARED_NAME = "/dev/zero (deleted)"  # what the kernel calls shared memory without a name


def exceeds_memory(first: int, limit: int) -> bool:
    """Whether a process and everything below it hold more memory than this.

    What several of them share is counted once; but that is dear to find out, so it is asked only when the plain sum,
    which counts it each time, is over the limit.
    """
    members = {pid: _read_byte_fields(pid, "status") or {} for pid in subtree_pids(first)}
    own = {pid: _sum_fields(found, _PRIVATE_FIELDS) for pid, found in members.items()}
    seen = sum(found.get("RssShmem", 0) for found in members.values())
    most = sum(max(found.get("RssShmem", 0), _max_shared_bytes(found)) for found in members.values())
    if sum(own.values()) + most <= limit:
        return False
    nameless = _anonymous_shared_bytes(list(members))
    if sum(own.values()) + max(nameless, seen) <= limit:
        return False
    exact = {pid: _read_byte_fields(pid, "smaps_rollup") for pid in members}
    # One that does not let itself be looked at closely is taken at the plain numbers.
    held = sum(
        own[pid] if found is None else _sum_fields(found, ("Pss_Anon", "SwapPss")) + members[pid].get("VmPTE", 0)
        for pid, found in exact.items()
    )
    shared = sum(
        members[pid].get("RssShmem", 0) if found is None else found.get("Pss_Shmem", 0) for pid, found in exact.items()
    )
    return held + max(nameless, shared) > limit


def memory_used(first: int) -> int | None:
    """The memory that a process and everything below it hold, by the plain numbers; None where it is gone."""
    members = [_read_byte_fields(pid, "status") for pid in subtree_pids(first)]
    held = sum(_sum_fields(found, (*_PRIVATE_FIELDS, "RssShmem")) for found in members if found)
    return held or None


def _max_shared_bytes(found: dict[str, int]) -> int:
    """How much of a process's addresses could be shared memory: more than it is, but it costs nothing to know."""
    return max(0, found.get("VmSize", 0) - _sum_fields(found, _NEVER_SHARED_FIELDS))


def _anonymous_shared_bytes(members: list[int]) -> int:
    """The size of all shared memory without a name that these processes have mapped, each piece of it once."""
    ends: dict[str, int] = {}
    for pid in members:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError:
            # Gone, or not ours to look at; then its plain numbers have to do.
            continue
        for line in lines:
            if line.endswith(_ANONYMOUS_SHARED_NAME):
                addresses, _, offset, _, inode, *_ = line.split()
                start, _, end = addresses.partition("-")
                # Of its end: what was unmapped before it is still held by the kernel.
                ends[inode] = max(ends.get(inode, 0), int(offset, 16) + int(end, 16) - int(start, 16))
    return sum(ends.values())


def _sum_fields(found: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(found.get(name, 0) for name in names)


def _read_byte_fields(pid: int, file: str) -> dict[str, int] | None:
    """What is told in kilobytes, as bytes; nothing of a process that is gone, None where we may not look."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text(errors="replace").splitlines()
    except PermissionError:
        return None
    except OSError:
        return {}
    parts = [line.split() for line in lines]
    return {part[0].rstrip(":"): int(part[1]) * 1024 for part in parts if len(part) == 3 and part[2] == "kB"}


DEFAULT_CPU_WEIGHT = 1024
_WEIGHT_PER_NICE_LEVEL = 1.25  # by how much each degree of niceness lowers the kernel's weight of a process
_MAX_NICENESS = 19


def niceness_for(cpu_weight: int) -> int:
    """The niceness whose weight is nearest to this one, on the scale where an ordinary process has 1024.

    Never below 0: that would be going before others, which takes a privilege and is nobody's to grant.
    """
    return min(_MAX_NICENESS, max(0, round(math.log(DEFAULT_CPU_WEIGHT / cpu_weight, _WEIGHT_PER_NICE_LEVEL))))


def set_niceness(pid: int, cpu_weight: int) -> None:
    """Have a process, and what it starts from now on, step back as its weight asks. It cannot undo that.

    Raises:
        OSError: it is gone.
    """
    degree = niceness_for(cpu_weight)
    os.setpriority(os.PRIO_PROCESS, pid, max(degree, os.getpriority(os.PRIO_PROCESS, pid)))
    # Where the kernel shares the CPU among sessions first, niceness counts only within one, and a cage is one.
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(degree))
