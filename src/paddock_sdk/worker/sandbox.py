"""Isolates the process of one call, so that it leaves nothing for the next: for the Kernel's agents.

The sandbox is inside the cage and is entered before any code of the plugin is loaded. Landlock: no file can be written,
created, removed or changed, and nothing of `/proc`, which shows other processes, can be read. A seccomp filter
(`seccomp_filter.py`): no other process can be created, signalled, limited or inspected, there are no sockets, and no
file's mode, owner, times or attributes change. What is left is the process's own memory and descriptors, which end with
it.

What this does not buy: kernel counters. The next process id, or the time when a directory was last read, can be
influenced by one call and seen by a later one. Calls that run at the same time could communicate that way too.
"""

from __future__ import annotations

import os
from array import array

from paddock_sdk.worker.seccomp_filter import MACHINES, filter_program

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_GET_VERSION = 1
_BENEATH_PATH = 1
_NO_NEW_PRIVILEGES, _SET_FILTER, _ADOPT_ORPHANS = 38, 22, 36  # of prctl
_FILTER = 2

# Bits of LANDLOCK_ACCESS_FS_*.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
# Access rights by Landlock version; later versions include earlier ones. Everything but reading is refused.
_HANDLED = ((1, 0x1FFF), (2, 0x3FFF), (3, 0x7FFF), (5, 0xFFFF))
_SCOPES = 0b11  # from version 6: no abstract sockets or signals to the outside
_HIDDEN_DIRECTORY = "proc"  # in the root directory: shows other processes


class SandboxUnavailable(Exception):
    """Isolation failed; no code of the plugin may run."""


def become_subreaper() -> None:
    """Become the parent of descendant processes whose own parent exits.

    Raises:
        SandboxUnavailable: the kernel refuses.
    """
    if _Kernel().prctl(_ADOPT_ORPHANS, 1):
        raise SandboxUnavailable("processes cannot be adopted")


def enter_sandbox() -> None:
    """Isolate this process permanently.

    Raises:
        SandboxUnavailable: a restriction cannot be applied.
    """
    kernel = _Kernel()
    if kernel.prctl(_NO_NEW_PRIVILEGES, 1):
        raise SandboxUnavailable("new privileges cannot be given up")
    _apply_landlock(kernel)
    _apply_seccomp(kernel)


class _Kernel:
    """System calls that Python does not wrap."""

    def __init__(self) -> None:
        import _ctypes  # importing ctypes takes longer than everything else here

        library = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType] None is this process
        self._call = _ctypes.call_function
        self._syscall, self._prctl = _ctypes.dlsym(library, "syscall"), _ctypes.dlsym(library, "prctl")

    def syscall(self, *arguments: int | bytes | None) -> int:
        return self._call(self._syscall, arguments)

    def prctl(self, option: int, value: int, argument: bytes | None = None) -> int:
        return self._call(self._prctl, (option, value, argument, None, None))


def _apply_landlock(kernel: _Kernel) -> None:
    version = kernel.syscall(_CREATE_RULESET, None, 0, _GET_VERSION)
    if version < 1:
        raise SandboxUnavailable("this kernel has no Landlock, which must hold what an agent could leave behind")
    ruleset = [bits for since, bits in _HANDLED if since <= version][-1].to_bytes(8, "little")
    if version >= 6:
        ruleset += bytes(8) + _SCOPES.to_bytes(8, "little")
    ruleset_fd = kernel.syscall(_CREATE_RULESET, ruleset, len(ruleset), 0)
    if ruleset_fd < 0:
        raise SandboxUnavailable("Landlock cannot be used")
    for path, bits in _readable_paths():
        try:
            path_fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # a missing path grants nothing
        if not _is_directory(path_fd):
            bits &= ~_READ_DIR
        if kernel.syscall(
            _ADD_RULE, ruleset_fd, _BENEATH_PATH, bits.to_bytes(8, "little") + path_fd.to_bytes(4, "little"), 0
        ):
            raise SandboxUnavailable(f"no Landlock rule can be made for {path}")
        os.close(path_fd)
    if kernel.syscall(_RESTRICT_SELF, ruleset_fd, 0):
        raise SandboxUnavailable("Landlock cannot be applied")
    os.close(ruleset_fd)


def _readable_paths() -> list[tuple[str, int]]:
    names = [name for name in os.listdir("/") if name != _HIDDEN_DIRECTORY]  # noqa: PTH208
    readable = [(f"/{name}", _READ_FILE | _READ_DIR | _EXECUTE) for name in names]
    return [*readable, (os.devnull, _READ_FILE | _WRITE_FILE)]


def _is_directory(path_fd: int) -> bool:
    return os.fstat(path_fd).st_mode & 0o170000 == 0o040000


def _apply_seccomp(kernel: _Kernel) -> None:
    machine = os.uname().machine
    if machine not in MACHINES:
        raise SandboxUnavailable(f"the system calls of {machine} are not known")
    program = array("B", filter_program(machine, os.getpid()))
    address, size = program.buffer_info()
    descriptor = (size // 8).to_bytes(8, "little") + address.to_bytes(8, "little")
    if kernel.prctl(_SET_FILTER, _FILTER, descriptor):
        raise SandboxUnavailable("system calls cannot be filtered")
