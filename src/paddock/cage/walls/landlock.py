"""The inner wall: what the plugin may still do with the files that its cage shows. Pure.

Bubblewrap decides what exists in a cage. Landlock is a second opinion from another part of the kernel, applied by the
trampoline after everything is mounted, and it adds one thing that mounts cannot say: which files may be executed.

What this does not buy: a program that may run can read another program's file into its own memory and jump there (the
dynamic loader does just that). So a program that must not run is not shown at all; the rule here is the second lock.
"""

from __future__ import annotations

from collections.abc import Iterator

from paddock.cage.spec import CageSpec

# The bits of LANDLOCK_ACCESS_FS_*, in the kernel's order.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REGULAR, MAKE_SOCKET, MAKE_FIFO, MAKE_LINK = 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 12
REFER, TRUNCATE, USE_DEVICE = 1 << 13, 1 << 14, 1 << 15

READ = READ_FILE | READ_DIR
WRITE = (
    READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | REFER
    | MAKE_DIR | MAKE_REGULAR | MAKE_SOCKET | MAKE_FIFO | MAKE_LINK
)  # fmt: skip
USE = READ | WRITE_FILE | USE_DEVICE
RUN = READ_FILE | EXECUTE

# A dynamic program is executed together with its loader. Only the one of this machine exists in a cage.
LOADERS = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
)


def landlock_rules(spec: CageSpec) -> Iterator[tuple[str, int]]:
    """Path and access bits, as the cage sees the path. A path that does not exist there grants nothing."""
    yield "/", READ_DIR  # to see what is there is harmless: nothing is there that is not bound
    yield "/etc", READ
    yield "/proc", READ
    yield "/dev", USE
    yield "/tmp", WRITE  # noqa: S108 the cage's own
    yield "/dev/shm", WRITE  # noqa: S108 the cage's own
    for bind in spec.binds:
        # The trampoline's interpreter is there to raise these walls, not for the plugin.
        if bind.target != spec.trampoline:
            yield bind.target, WRITE if bind.writable else READ
    for loader in LOADERS:
        yield loader, RUN
    for program in spec.executables:
        yield program, RUN
