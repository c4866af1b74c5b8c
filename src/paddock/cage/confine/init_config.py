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
from collections.abc import Iterator, Mapping

from paddock.cage.confine.sandbox_init import KEEP_ARTIFACTS_RECORD
from paddock.cage.spec import CageSpec, ResourceLimits

# The bits of LANDLOCK_ACCESS_FS_*, in the kernel's order.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REGULAR, MAKE_SOCKET, MAKE_FIFO, MAKE_LINK = 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 12
REFER, TRUNCATE, USE_DEVICE = 1 << 13, 1 << 14, 1 << 15

READ_RIGHTS = READ_FILE | READ_DIR
WRITE_RIGHTS = (
    READ_RIGHTS | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | REFER
    | MAKE_DIR | MAKE_REGULAR | MAKE_SOCKET | MAKE_FIFO | MAKE_LINK
)  # fmt: skip
DEVICE_RIGHTS = READ_RIGHTS | WRITE_FILE | USE_DEVICE
EXECUTE_RIGHTS = READ_FILE | EXECUTE

# A dynamic program is executed together with its loader. Only the one of this machine exists in a cage.
DYNAMIC_LOADERS = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
)


def landlock_rules(spec: CageSpec) -> Iterator[tuple[str, int]]:
    """Path and access bits, as the cage sees the path. A path that does not exist there grants nothing."""
    yield "/", READ_DIR  # to see what is there is harmless: nothing is there that is not bound
    yield "/etc", READ_RIGHTS
    yield "/proc", READ_RIGHTS
    yield "/dev", DEVICE_RIGHTS
    yield "/tmp", WRITE_RIGHTS  # noqa: S108 the cage's own
    yield "/dev/shm", WRITE_RIGHTS  # noqa: S108 the cage's own
    for bind in spec.binds:
        # The trampoline's interpreter is there to raise these walls, not for the plugin.
        if bind.target != spec.trampoline:
            yield bind.target, WRITE_RIGHTS if bind.writable else READ_RIGHTS
    for loader in DYNAMIC_LOADERS:
        yield loader, EXECUTE_RIGHTS
    for program in spec.executables:
        yield program, EXECUTE_RIGHTS


# The kernel holds up to some 400 KiB for each socket, which is nobody's memory unless a control group counts it.
MAX_FILES_WITHOUT_CGROUP = 128


def build_init_config(spec: CageSpec, limits: Mapping[int, int]) -> bytes:
    """The file for one cage; `limits` are resource limits by their kernel number."""
    records = [
        *(f"limit {number} {value}" for number, value in sorted(limits.items())),
        *(f"allow {bits} {path}" for path, bits in landlock_rules(spec)),
        *(f"set {name}={value}" for name, value in sorted(spec.environment.items())),
        *(f"word {word}" for word in (spec.command[1:] if spec.python is None else spec.python.arguments)),
        *([KEEP_ARTIFACTS_RECORD.decode()] if spec.artifacts else []),
    ]
    return b"".join(record.encode("utf-8", "surrogateescape") + b"\0" for record in records)


def process_rlimits(limits: ResourceLimits, *, memory: bool, processes: bool) -> dict[int, int]:
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
        found[resource.RLIMIT_NOFILE] = min(limits.open_files, MAX_FILES_WITHOUT_CGROUP)
    if processes:
        found[resource.RLIMIT_NPROC] = limits.pids
    return found
