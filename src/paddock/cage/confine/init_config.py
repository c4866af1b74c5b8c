"""The configuration file of `sandbox_init`: what it does before the plugin's program runs. Pure.

Records end with a NUL, since neither a path nor a variable can contain one:

    limit NUMBER VALUE      lower a resource limit
    allow BITS PATH         a Landlock rule
    set NAME=VALUE          a variable of the program's environment
    word ARGUMENT           an argument of the program, in order
    artifacts               the artifact pipes stay open
    observe NUMBER FILTER   a learning cage: install this filter, in hexadecimal, by the system call of that number
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping

from paddock.cage.confine.sandbox_init import KEEP_ARTIFACTS_RECORD, OBSERVE_RECORD
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

# A dynamically linked program is executed together with its loader. Only the loader of this machine exists in a cage.
DYNAMIC_LOADERS = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
)


def landlock_rules(spec: CageSpec) -> Iterator[tuple[str, int]]:
    """Path and access bits of each rule, as the cage sees the path. A path that does not exist there grants nothing."""
    yield "/", READ_DIR  # listing directories is harmless: nothing exists there that is not bound
    yield "/etc", READ_RIGHTS
    yield "/proc", READ_RIGHTS
    yield "/dev", DEVICE_RIGHTS
    yield "/tmp", WRITE_RIGHTS  # noqa: S108 the cage's own
    yield "/dev/shm", WRITE_RIGHTS  # noqa: S108 the cage's own
    for bind in spec.binds:
        # The interpreter of `sandbox_init` is there to apply these restrictions, not for the plugin.
        if bind.target != spec.trampoline:
            yield bind.target, WRITE_RIGHTS if bind.writable else READ_RIGHTS
    for loader in DYNAMIC_LOADERS:
        yield loader, EXECUTE_RIGHTS
    for program in spec.executables:
        yield program, EXECUTE_RIGHTS
    for stand_in in spec.learning.stand_ins if spec.learning else ():
        yield stand_in.path, EXECUTE_RIGHTS if stand_in.kind == "program" else READ_RIGHTS


# The kernel holds up to some 400 KiB for each socket, which is counted nowhere unless a cgroup counts it.
MAX_FILES_WITHOUT_CGROUP = 128


def build_init_config(spec: CageSpec, limits: Mapping[int, int]) -> bytes:
    """Build the file for one cage; `limits` are rlimits by their kernel number."""
    records = [
        *(f"limit {number} {value}" for number, value in sorted(limits.items())),
        *(f"allow {bits} {path}" for path, bits in landlock_rules(spec)),
        *(f"set {name}={value}" for name, value in sorted(spec.environment.items())),
        *(f"word {word}" for word in (spec.command[1:] if spec.python is None else spec.python.arguments)),
        *([KEEP_ARTIFACTS_RECORD.decode()] if spec.artifacts else []),
        *([_observe_record(os.uname().machine)] if spec.learning else []),
    ]
    return b"".join(record.encode("utf-8", "surrogateescape") + b"\0" for record in records)


def _observe_record(machine: str) -> str:
    # Few cages are learning cages, and every start of a warden would wait for the import.
    from paddock.cage.confine.notify_filter import SECCOMP_NUMBERS, notify_program

    return f"{OBSERVE_RECORD.decode()} {SECCOMP_NUMBERS[machine]} {notify_program(machine).hex()}"


def process_rlimits(limits: ResourceLimits, *, memory: bool, processes: bool) -> dict[int, int]:
    """The rlimits of a cage's processes.

    Args:
        limits: The limits of the cage.
        memory: Whether no cgroup limits the memory. Then data is limited, not address space: a
            JavaScript engine reserves gigabytes of addresses that it never fills. Open files are limited more tightly
            too, since data queued in sockets is memory that is counted for no process.
        processes: Whether no cgroup limits the number of processes.
    """
    rlimits = {
        # A core dump is written by the host, outside the cage. 0 only forbids a file: where the kernel pipes it to a
        # program, that program is started all the same. 1 forbids both.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.write_bytes,
        resource.RLIMIT_MEMLOCK: 64 * 1024,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_NICE: 0,
    }
    if memory:
        rlimits[resource.RLIMIT_DATA] = limits.memory_bytes
        rlimits[resource.RLIMIT_NOFILE] = min(limits.open_files, MAX_FILES_WITHOUT_CGROUP)
    if processes:
        rlimits[resource.RLIMIT_NPROC] = limits.pids
    return rlimits
