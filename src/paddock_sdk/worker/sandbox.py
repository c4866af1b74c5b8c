"""Walls around the process of one call, so that nothing of it is there for the next: for the Kernel's agents.

They stand inside the cage, before any code of the plugin is loaded. Landlock: no file can be written, made, removed or
changed, and of `/proc`, where other processes are seen, nothing is read. A filter of system calls (`refused_calls.py`):
no other process can be made, signalled, limited or looked into, there are no sockets, and no file's mode, owner, times
or attributes change. What is left is memory and descriptors of its own, and they end with it.

What this does not buy: the kernel counts. How high the next process id is, or when a directory was last read, can be
nudged by one call and seen by a later one. And calls that run at the same moment could find such ways to each other.
"""

from __future__ import annotations

import os
from array import array

from paddock_sdk.worker.seccomp_filter import MACHINES, filter_program

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every machine
_TELL_VERSION = 1
_BENEATH_PATH = 1
_NO_NEW_PRIVILEGES, _SET_FILTER, _ADOPT_ORPHANS = 38, 22, 36  # of prctl
_FILTER = 2

# Bits of LANDLOCK_ACCESS_FS_*.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
# What each version of Landlock can handle; a later version handles all of these. All of it is refused but for reading.
_HANDLED = ((1, 0x1FFF), (2, 0x3FFF), (3, 0x7FFF), (5, 0xFFFF))
_SCOPES = 0b11  # from version 6: no abstract sockets and no signals to the outside
_UNSEEN = "proc"  # below the root: the one place that shows other processes


class SandboxUnavailable(Exception):
    """A wall could not be raised; no code of the plugin may run."""


def become_subreaper() -> None:
    """Be the parent of processes below this one whose own parent ends.

    Raises:
        CannotSeclude: the kernel refuses.
    """
    if _Kernel().prctl(_ADOPT_ORPHANS, 1):
        raise SandboxUnavailable("processes cannot be adopted")


def enter_sandbox() -> None:
    """Raise the walls around this process, for good.

    Raises:
        CannotSeclude: one cannot be raised.
    """
    kernel = _Kernel()
    if kernel.prctl(_NO_NEW_PRIVILEGES, 1):
        raise SandboxUnavailable("new privileges cannot be given up")
    _apply_landlock(kernel)
    _apply_seccomp(kernel)


class _Kernel:
    """System calls that Python has no words for."""

    def __init__(self) -> None:
        import _ctypes  # ctypes itself would take longer to import than everything else here

        library = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType] None is this process
        self._call = _ctypes.call_function
        self._syscall, self._prctl = _ctypes.dlsym(library, "syscall"), _ctypes.dlsym(library, "prctl")

    def syscall(self, *arguments: int | bytes | None) -> int:
        return self._call(self._syscall, arguments)

    def prctl(self, option: int, value: int, argument: bytes | None = None) -> int:
        return self._call(self._prctl, (option, value, argument, None, None))


def _apply_landlock(kernel: _Kernel) -> None:
    version = kernel.syscall(_CREATE_RULESET, None, 0, _TELL_VERSION)
    if version < 1:
        raise SandboxUnavailable("this kernel has no Landlock, which must hold what an agent could leave behind")
    ruleset = [bits for since, bits in _HANDLED if since <= version][-1].to_bytes(8, "little")
    if version >= 6:
        ruleset += bytes(8) + _SCOPES.to_bytes(8, "little")
    walls = kernel.syscall(_CREATE_RULESET, ruleset, len(ruleset), 0)
    if walls < 0:
        raise SandboxUnavailable("Landlock cannot be used")
    for path, bits in _readable_paths():
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what is not there grants nothing
        if not _is_directory(place):
            bits &= ~_READ_DIR
        if kernel.syscall(_ADD_RULE, walls, _BENEATH_PATH, bits.to_bytes(8, "little") + place.to_bytes(4, "little"), 0):
            raise SandboxUnavailable(f"no Landlock rule can be made for {path}")
        os.close(place)
    if kernel.syscall(_RESTRICT_SELF, walls, 0):
        raise SandboxUnavailable("Landlock cannot be applied")
    os.close(walls)


def _readable_paths() -> list[tuple[str, int]]:
    everything = [(f"/{name}", _READ_FILE | _READ_DIR | _EXECUTE) for name in os.listdir("/") if name != _UNSEEN]  # noqa: PTH208
    return [*everything, (os.devnull, _READ_FILE | _WRITE_FILE)]


def _is_directory(place: int) -> bool:
    return os.fstat(place).st_mode & 0o170000 == 0o040000


def _apply_seccomp(kernel: _Kernel) -> None:
    machine = os.uname().machine
    if machine not in MACHINES:
        raise SandboxUnavailable(f"the system calls of {machine} are not known")
    program = array("B", filter_program(machine, os.getpid()))
    address, size = program.buffer_info()
    described = (size // 8).to_bytes(8, "little") + address.to_bytes(8, "little")
    if kernel.prctl(_SET_FILTER, _FILTER, described):
        raise SandboxUnavailable("system calls cannot be filtered")
