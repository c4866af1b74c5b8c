"""Limits for cages without cgroups: a memory watchdog and niceness. For an ordinary user without delegated cgroups.

A limit on each process alone (RLIMIT_DATA) does not bound many of them together; the watchdog does, half a second
late. Each check reads counters that cost next to nothing, and looks closer only when those could mean too much.

Anonymous shared memory counts in full from the moment it is mapped: a process may drop its pages (MADV_DONTNEED) so
that none is counted as its own, and the kernel keeps them all the same.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

from paddock.cage.linux import subtree_pids

MEMORY_CHECK_INTERVAL_S = 0.5

# A process's own pages, in memory and swapped out, and its page tables.
_PRIVATE_FIELDS = ("RssAnon", "VmSwap", "VmPTE")
# What cannot be shared memory: private data, stacks, programs. The rest of the address space could be.
_NEVER_SHARED_FIELDS = ("VmData", "VmStk", "VmExe", "VmLib")
_ANONYMOUS_SHARED_NAME = "/dev/zero (deleted)"  # the kernel's name for anonymous shared memory


def exceeds_memory(root_pid: int, limit: int) -> bool:
    """Whether a process and its descendants use more memory than the limit.

    Memory that several of them share is counted once; but that is expensive to find out, so it is done only when the
    plain sum,
    which counts it for each, is over the limit.
    """
    members = {pid: _read_byte_fields(pid, "status") or {} for pid in subtree_pids(root_pid)}
    private = {pid: _sum_fields(fields, _PRIVATE_FIELDS) for pid, fields in members.items()}
    resident_shared = sum(fields.get("RssShmem", 0) for fields in members.values())
    max_shared = sum(max(fields.get("RssShmem", 0), _max_shared_bytes(fields)) for fields in members.values())
    if sum(private.values()) + max_shared <= limit:
        return False
    anonymous_shared = _anonymous_shared_bytes(list(members))
    if sum(private.values()) + max(anonymous_shared, resident_shared) <= limit:
        return False
    exact = {pid: _read_byte_fields(pid, "smaps_rollup") for pid in members}
    # A process that may not be inspected closely is taken at the plain counters.
    used = sum(
        private[pid] if fields is None else _sum_fields(fields, ("Pss_Anon", "SwapPss")) + members[pid].get("VmPTE", 0)
        for pid, fields in exact.items()
    )
    shared = sum(
        members[pid].get("RssShmem", 0) if fields is None else fields.get("Pss_Shmem", 0)
        for pid, fields in exact.items()
    )
    return used + max(anonymous_shared, shared) > limit


def memory_used(root_pid: int) -> int | None:
    """The memory that a process and its descendants use, by the plain counters; None where it is gone."""
    members = [_read_byte_fields(pid, "status") for pid in subtree_pids(root_pid)]
    used = sum(_sum_fields(fields, (*_PRIVATE_FIELDS, "RssShmem")) for fields in members if fields)
    return used or None


def _max_shared_bytes(fields: dict[str, int]) -> int:
    """Upper bound of a process's shared memory: more than it is, but it costs nothing to know."""
    return max(0, fields.get("VmSize", 0) - _sum_fields(fields, _NEVER_SHARED_FIELDS))


def _anonymous_shared_bytes(members: list[int]) -> int:
    """The size of all anonymous shared memory that these processes have mapped, each segment once."""
    ends: dict[str, int] = {}
    for pid in members:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError:
            # Gone, or not readable for us; then its plain counters have to do.
            continue
        for line in lines:
            if line.endswith(_ANONYMOUS_SHARED_NAME):
                addresses, _, offset, _, inode, *_ = line.split()
                start, _, end = addresses.partition("-")
                # Up to its end: the kernel still holds what was unmapped before it.
                ends[inode] = max(ends.get(inode, 0), int(offset, 16) + int(end, 16) - int(start, 16))
    return sum(ends.values())


def _sum_fields(fields: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(fields.get(name, 0) for name in names)


def _read_byte_fields(pid: int, file: str) -> dict[str, int] | None:
    """Read the fields given in kB, as bytes; empty for a process that is gone, None where we may not read."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text(errors="replace").splitlines()
    except PermissionError:
        return None
    except OSError:
        return {}
    parts = [line.split() for line in lines]
    return {part[0].rstrip(":"): int(part[1]) * 1024 for part in parts if len(part) == 3 and part[2] == "kB"}


DEFAULT_CPU_WEIGHT = 1024
_WEIGHT_PER_NICE_LEVEL = 1.25  # by how much each nice level lowers the kernel's weight of a process
_MAX_NICENESS = 19


def niceness_for(cpu_weight: int) -> int:
    """The niceness whose weight is nearest to this one, on the scale where an ordinary process has 1024.

    Never below 0: raising a priority takes a privilege that no grant gives.
    """
    return min(_MAX_NICENESS, max(0, round(math.log(DEFAULT_CPU_WEIGHT / cpu_weight, _WEIGHT_PER_NICE_LEVEL))))


def set_niceness(pid: int, cpu_weight: int) -> None:
    """Lower the priority of a process and its later children to match a weight. The process cannot undo that.

    Raises:
        OSError: The process is gone.
    """
    nice = niceness_for(cpu_weight)
    os.setpriority(os.PRIO_PROCESS, pid, max(nice, os.getpriority(os.PRIO_PROCESS, pid)))
    # Where the kernel has autogroups, niceness counts only within a session, and a cage is one.
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
