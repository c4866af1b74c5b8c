"""What the trampoline is told to do before the plugin's program runs, as the bytes of one file. Pure.

Records end with a NUL, since neither a path nor a variable can contain one:

    limit NUMBER VALUE      lower a resource limit
    allow BITS PATH         a Landlock rule
    set NAME=VALUE          a variable of the program's environment
    word ARGUMENT           an argument of the program, in its place among them
    artifacts               the pipes for big bytes stay open
"""

from __future__ import annotations

import resource
from collections.abc import Mapping

from paddock.cage.spec import CageSpec, Limits
from paddock.cage.walls.landlock import landlock_rules
from paddock.cage.walls.trampoline import KEEP_ARTIFACTS

# The kernel holds up to some 400 KiB for each socket, which is nobody's memory unless a control group counts it.
FILES_WHERE_NOBODY_COUNTS = 128


def orders(spec: CageSpec, limits: Mapping[int, int]) -> bytes:
    """The file for one cage; `limits` are resource limits by their kernel number."""
    records = [
        *(f"limit {number} {value}" for number, value in sorted(limits.items())),
        *(f"allow {bits} {path}" for path, bits in landlock_rules(spec)),
        *(f"set {name}={value}" for name, value in sorted(spec.environment.items())),
        *(f"word {word}" for word in (spec.command[1:] if spec.python is None else spec.python.arguments)),
        *([KEEP_ARTIFACTS.decode()] if spec.artifacts else []),
    ]
    return b"".join(record.encode("utf-8", "surrogateescape") + b"\0" for record in records)


def resource_limits(limits: Limits, *, memory: bool, processes: bool) -> dict[int, int]:
    """The limits that a process carries itself.

    Args:
        limits: What the cage may use.
        memory: Whether nothing better (a control group) bounds the memory. Bounds data, not address space: a
            JavaScript engine reserves gigabytes of addresses that it never fills. Bounds open files more tightly
            too, since what waits in sockets is memory that no process is seen to hold.
        processes: Whether nothing better bounds the number of processes.
    """
    found = {
        # A core dump is written by the host, outside the cage. 0 only forbids a file: where the kernel hands it to
        # a program, that program is started all the same. 1 forbids both.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.write_bytes,
        resource.RLIMIT_MEMLOCK: 64 * 1024,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_NICE: 0,
    }
    if memory:
        found[resource.RLIMIT_DATA] = limits.memory_bytes
        found[resource.RLIMIT_NOFILE] = min(limits.open_files, FILES_WHERE_NOBODY_COUNTS)
    if processes:
        found[resource.RLIMIT_NPROC] = limits.pids
    return found
