"""Watches the memory of cages where no group of the kernel holds it: as an ordinary user without delegated cgroups.

A limit on each process alone (RLIMIT_DATA) does not bound many of them together; this does, half a second late.
"""

from __future__ import annotations

from pathlib import Path

from paddock.cage.process_tree import family

EVERY_SECONDS = 0.5


def over(first: int, limit: int) -> bool:
    """Whether a process and everything below it hold more memory than this.

    What several of them share is counted once; but that is dear to find out, so it is asked only when the plain sum,
    which counts it each time, is over the limit.
    """
    members = family(first)
    plain = {pid: _held(pid, "status", ("RssAnon", "RssShmem")) or 0 for pid in members}
    if sum(plain.values()) <= limit:
        return False
    exact = {pid: _held(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem")) for pid in members}
    # One that does not let itself be looked at closely is taken at the plain number.
    return sum(plain[pid] if held is None else held for pid, held in exact.items()) > limit


def _held(pid: int, file: str, names: tuple[str, ...]) -> int | None:
    """The sum of these numbers, 0 for a process that is gone, None where we may not look."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except PermissionError:
        return None
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.partition(":")[0] in names)
