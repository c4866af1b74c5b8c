"""The namespaces and mounts that a copy of the zygote builds around itself, inside the zygote's cage.

The outer cage (made by bubblewrap) gives the libraries, the interpreter, a read-only root and capabilities over nothing
but its own user namespace. What is private to one plugin is added here, in the only possible order: namespaces,
its own mounts, and last a user namespace in which it has no capability at all. The result is the same as in a
cold start, where bubblewrap does all of it.

This file stands alone, since it is copied into the zygote's cage: so it has its own uid of nobody and its own few
wrappers of system calls (`linux.py` has the warden's).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterable, Mapping

ZYGOTE_FILES = "/.cage/zygote"  # the directory of the zygote's program in its cage
CAGE_ID = 65534  # the uid and gid a plugin sees itself as

_NEW_MOUNTS, _NEW_CGROUP, _NEW_NAMES, _NEW_IPC = 0x20000, 0x02000000, 0x04000000, 0x08000000
_NEW_USER, NEW_PIDS, _NEW_NET = 0x10000000, 0x20000000, 0x40000000

_READ_ONLY, _NO_SET_ID, _NO_DEVICES, _NO_EXECUTE = 1, 2, 4, 8
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 32, 4096, 16384, 1 << 18
_OPEN_TREE, _MOVE_MOUNT = 428, 429  # the same numbers on every architecture we know
_HERE = -100
_CLONE_WHOLE_TREE = 1 | 0o2000000 | 0x8000  # OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_RECURSIVE
_FROM_DESCRIPTOR = 4  # MOVE_MOUNT_F_EMPTY_PATH

_DEATH_SIGNAL, _DUMPABLE, _SECCOMP, _DROP_BOUND, _NO_NEW_PRIVILEGES, _AMBIENT = 1, 4, 22, 24, 38, 47
_FILTER, _CLEAR_ALL = 2, 4
_CAPABILITY_VERSION_3 = 0x20080522
_SET_INTERFACE_FLAGS, _UP_AND_RUNNING = 0x8914, 0x49

_libc = ctypes.CDLL(None, use_errno=True)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def unshare_child_pids() -> None:
    """Make the next fork the init process of a new pid namespace."""
    _check(_libc.unshare(NEW_PIDS), "unshare pids")


def restore_child_pids(namespace: int) -> None:
    """Put later forks into this pid namespace again."""
    _check(_libc.setns(namespace, NEW_PIDS), "setns pids")


def die_with_parent() -> None:
    _check(_libc.prctl(_DEATH_SIGNAL, 9, 0, 0, 0), "parent death signal")


def unshare_namespaces() -> None:
    """Unshare mounts, network, IPC, host name and cgroup view; bring up loopback, the only interface."""
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_NET | _NEW_IPC | _NEW_NAMES | _NEW_CGROUP), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))


def open_tree(path: str) -> int:
    """Clone a directory as a detached mount."""
    return _check(_libc.syscall(_OPEN_TREE, _HERE, os.fsencode(path), _CLONE_WHOLE_TREE), f"open_tree {path}")


def mount_proc_and_devpts(hidden: Iterable[str]) -> int:
    """Mount a /proc that shows our processes alone, and our own terminals. Returns a descriptor of the outer /proc.

    The outer one is still writable, which the last steps need. `hidden` are files of /proc that no plugin may see.
    """
    outer = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    _mount("proc", "/proc", "proc", _READ_ONLY | _NO_SET_ID | _NO_DEVICES | _NO_EXECUTE)
    for path in hidden:
        _mount("/dev/null", path, None, _BIND)
        _read_only(path)  # and without devices, so that it cannot be opened
    # A shared devpts would be a channel from plugin to plugin.
    _mount("devpts", "/dev/pts", "devpts", _NO_SET_ID | _NO_EXECUTE, "newinstance,ptmxmode=0666,mode=620")
    return outer


def mount_plugin_files(*, tree: int, root: str, trees: str, tmp_bytes: int, etc: Mapping[str, str]) -> None:
    """Cover the files of the zygote and of other plugins, and mount this plugin's own.

    The covers cannot be removed later: that takes a capability over this mount namespace, which the plugin never has.

    Args:
        tree: The plugin's files, as a mount.
        root: Where it finds them.
        trees: The directory that contains all plugins; only `root` is left in it.
        tmp_bytes: The size of /tmp and of /dev/shm.
        etc: Files of /etc that differ from the zygote's.
    """
    # First, since the trees may lie below them.
    for target in ("/tmp", "/dev/shm"):  # noqa: S108 the cage's own
        _mount("tmpfs", target, "tmpfs", _NO_SET_ID | _NO_DEVICES, f"size={tmp_bytes},mode=1777")
    os.makedirs(trees, exist_ok=True)  # noqa: PTH103
    _small_tmpfs(trees)
    os.makedirs(root, exist_ok=True)  # noqa: PTH103
    _check(_libc.syscall(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(root), _FROM_DESCRIPTOR), "move_mount")
    _read_only(trees)
    # Our own program files are covered too.
    _small_tmpfs(ZYGOTE_FILES)
    hidden = {path: f"{ZYGOTE_FILES}/{number}" for number, path in enumerate(etc)}
    for path, copy in hidden.items():
        with open(copy, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(etc[path])
    _read_only(ZYGOTE_FILES)
    for path, copy in hidden.items():
        _mount(copy, path, None, _BIND)


def enter_nobody_userns(proc: int, limits: Mapping[str, int]) -> None:
    """Enter a user namespace where we are nobody, that can have no others below it, and drop every capability.

    `proc` is the outer /proc: our own is read-only. `limits` are set for the namespace, by the names of their sysctls.
    """
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEW_USER), "unshare user")
    _write(proc, "self/setgroups", "deny")
    _write(proc, "self/uid_map", f"{CAGE_ID} {user} 1")
    _write(proc, "self/gid_map", f"{CAGE_ID} {group} 1")
    _write(proc, "sys/user/max_user_namespaces", "0")
    for name, most in limits.items():
        if os.access(f"sys/user/{name}", os.F_OK, dir_fd=proc):  # a kernel may have no inotify
            _write(proc, f"sys/user/{name}", str(most))
    drop_capabilities()
    # Otherwise /proc/self would belong to root, and a plugin could not read about itself.
    _check(_libc.prctl(_DUMPABLE, 1, 0, 0, 0), "dumpable")


def drop_capabilities() -> None:
    """Drop every capability, for good."""
    _check(_libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0), "ambient capabilities")
    for capability in range(64):
        if _libc.prctl(_DROP_BOUND, capability, 0, 0, 0) < 0:
            break  # there are no more
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")


def filter_system_calls(program: bytes) -> None:
    """Install the seccomp filter."""
    filter_program = _FilterProgram(len(program) // 8, program)
    _check(_libc.prctl(_SECCOMP, _FILTER, ctypes.byref(filter_program), 0, 0), "seccomp")


def _small_tmpfs(target: str) -> None:
    _mount("tmpfs", target, "tmpfs", _NO_SET_ID | _NO_DEVICES, "size=1m,nr_inodes=64,mode=755")


def _read_only(target: str) -> None:
    _mount(None, target, None, _REMOUNT | _BIND | _READ_ONLY | _NO_SET_ID | _NO_DEVICES)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def _write(proc: int, path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _check(result: int, operation: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{operation}: {os.strerror(number)}")
    return result
