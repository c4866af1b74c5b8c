"""Watches the memory of cages where no group of the kernel holds it: as an ordinary user without delegated cgroups.

A limit on each process alone (RLIMIT_DATA) does not bound many of them together; this does, half a second late. It
looks every time at numbers that cost next to nothing, and looks closer only when those could mean too much.

Memory that is shared and has no name counts in full from the moment it is mapped: a process may let go of its pages
(MADV_DONTNEED) so that none is seen to be its own, and the kernel keeps them all the same.
"""

from __future__ import annotations

from pathlib import Path

from paddock.cage.process_tree import family

EVERY_SECONDS = 0.5

# A process's own pages, in memory and swapped out, and the tables that find them.
_OWN = ("RssAnon", "VmSwap", "VmPTE")
# What can hold no shared memory: private data, stacks, programs. The rest of all addresses could.
_NOT_SHARED = ("VmData", "VmStk", "VmExe", "VmLib")
_NAMELESS = "/dev/zero (deleted)"  # what the kernel calls shared memory without a name


def over(first: int, limit: int) -> bool:
    """Whether a process and everything below it hold more memory than this.

    What several of them share is counted once; but that is dear to find out, so it is asked only when the plain sum,
    which counts it each time, is over the limit.
    """
    members = {pid: _numbers(pid, "status") or {} for pid in family(first)}
    own = {pid: _sum(found, _OWN) for pid, found in members.items()}
    seen = sum(found.get("RssShmem", 0) for found in members.values())
    most = sum(max(found.get("RssShmem", 0), _shareable(found)) for found in members.values())
    if sum(own.values()) + most <= limit:
        return False
    nameless = _nameless(list(members))
    if sum(own.values()) + max(nameless, seen) <= limit:
        return False
    exact = {pid: _numbers(pid, "smaps_rollup") for pid in members}
    # One that does not let itself be looked at closely is taken at the plain numbers.
    held = sum(
        own[pid] if found is None else _sum(found, ("Pss_Anon", "SwapPss")) + members[pid].get("VmPTE", 0)
        for pid, found in exact.items()
    )
    shared = sum(
        members[pid].get("RssShmem", 0) if found is None else found.get("Pss_Shmem", 0) for pid, found in exact.items()
    )
    return held + max(nameless, shared) > limit


def held(first: int) -> int | None:
    """The memory that a process and everything below it hold, by the plain numbers; None where it is gone."""
    members = [_numbers(pid, "status") for pid in family(first)]
    held = sum(_sum(found, (*_OWN, "RssShmem")) for found in members if found)
    return held or None


def _shareable(found: dict[str, int]) -> int:
    """How much of a process's addresses could be shared memory: more than it is, but it costs nothing to know."""
    return max(0, found.get("VmSize", 0) - _sum(found, _NOT_SHARED))


def _nameless(members: list[int]) -> int:
    """The size of all shared memory without a name that these processes have mapped, each piece of it once."""
    ends: dict[str, int] = {}
    for pid in members:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError:
            # Gone, or not ours to look at; then its plain numbers have to do.
            continue
        for line in lines:
            if line.endswith(_NAMELESS):
                addresses, _, offset, _, inode, *_ = line.split()
                start, _, end = addresses.partition("-")
                # Of its end: what was unmapped before it is still held by the kernel.
                ends[inode] = max(ends.get(inode, 0), int(offset, 16) + int(end, 16) - int(start, 16))
    return sum(ends.values())


def _sum(found: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(found.get(name, 0) for name in names)


def _numbers(pid: int, file: str) -> dict[str, int] | None:
    """What is told in kilobytes, as bytes; nothing of a process that is gone, None where we may not look."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text(errors="replace").splitlines()
    except PermissionError:
        return None
    except OSError:
        return {}
    parts = [line.split() for line in lines]
    return {part[0].rstrip(":"): int(part[1]) * 1024 for part in parts if len(part) == 3 and part[2] == "kB"}
