"""Wrappers for Linux system calls and /proc that Python lacks: mounts, namespaces, pidfds, memfds, process trees.

Failed system calls raise OSError, as Python's own do. Only the warden calls them: it has one thread and can be root.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import struct
from collections.abc import Mapping
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWUSER = 0x1000_0000
_MNT_DETACH = 2
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_IDMAP = 0x0010_0000
_MOUNT_ATTR_READ_ONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 1, 2, 4
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MS_NODEV = 4
_MS_NOSUID = 2
_MS_PRIVATE = 0x4_0000
_MS_REC = 0x4000
_MS_SLAVE = 0x8_0000
_OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = 0x8_0000
_PIDFD_INFO_EXIT, _PIDFD_INFO_EXIT_CODE, _PIDFD_INFO_SIZE = 8, 60, 64
_PIDFD_GET_INFO = 0xC000_0000 | _PIDFD_INFO_SIZE << 16 | 0xFF0B
_PR_SET_CHILD_SUBREAPER = 36
# The same numbers on x86_64 and aarch64.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442

_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1

FULL_UID_MAP = ["0", "0", "4294967295"]


def is_host_root() -> bool:
    """Whether we are root of the host itself, which must not build cages under its own uid.

    Root of a container or of a user namespace is not: it cannot become a user that is not mapped.
    """
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == FULL_UID_MAP


def unshare_mounts() -> None:
    """Move to a private mount namespace that still receives the host's mounts, also later ones.

    So a disk that is mounted while we run can be shown, and one that is unmounted is not kept busy by us.
    """
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount(None, "/", None, _MS_REC | _MS_SLAVE, None)


def enter_namespace(namespace: int) -> None:
    """Move this process to another namespace of any kind (`os.setns` comes with Python 3.12)."""
    _check(_libc.setns(namespace, 0), "setns")


def mount_tmpfs(target: str, options: str) -> None:
    """Mount an empty tmpfs, for small things of ours."""
    _mount("paddock", target, "tmpfs", _MS_NOSUID | _MS_NODEV, options)


def mount_bind(source: int, target: str, user_namespace: int | None = None) -> None:
    """Bind-mount a tree at `target`, recursively, idmapped by a user namespace if one is given.

    Recursively, because data written to a bare mount point is lost below the mount. Submounts that are added
    later do not appear: they would come without the restrictions that this tree is mounted with.

    Args:
        source: A descriptor of it. No path is walked and no file system asked, so that none can block us.
        target: A mount point of our own.
        user_namespace: A descriptor; None leaves the owners as they are.

    Raises:
        OSError: EINVAL where one of the file systems has no idmapped mounts; EPERM where one is idmapped already.
    """
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    tree = _check(_libc.syscall(_SYS_OPEN_TREE, source, b"", flags | _AT_EMPTY_PATH), target)
    try:
        if user_namespace is None:
            _set_mount_attributes(tree, target)
        else:
            _set_mount_attributes(tree, target, _MOUNT_ATTR_IDMAP, user_namespace)
        result = _libc.syscall(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
        _check(result, target)
    finally:
        os.close(tree)


def clone_mount_tree(source: str) -> int:
    """Clone the tree at `source` as a detached read-only mount; the owner of the descriptor may attach it."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    tree = _check(_libc.syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), flags), source)
    try:
        _set_mount_attributes(tree, source, _MOUNT_ATTR_READ_ONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV)
    except BaseException:
        os.close(tree)
        raise
    return tree


def _set_mount_attributes(tree: int, path: str, attributes: int = 0, user_namespace: int = 0) -> None:
    """Set these attributes on every mount of a tree, and make it private."""
    mount_attr = struct.pack("=QQQQ", attributes, 0, _MS_PRIVATE, user_namespace)
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    _check(_libc.syscall(_SYS_MOUNT_SETATTR, tree, b"", flags, mount_attr, ctypes.c_size_t(len(mount_attr))), path)


def unmount(target: str) -> None:
    """Detach a mount at once, even while it is in use."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), target)


def create_mapped_userns(uid_map: str, gid_map: str) -> int:
    """Create an empty user namespace with these maps, and return its descriptor."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        # Whatever happens, the forked copy must not go on as the warden.
        try:
            created = _libc.unshare(_CLONE_NEWUSER) == 0
            os.write(ready[1], b"y" if created else b"n")
            os.close(go[1])
            os.read(go[0], 1)
        finally:
            os._exit(0)
    try:
        os.close(ready[1])
        if os.read(ready[0], 1) != b"y":
            raise OSError("no user namespace could be made")
        Path(f"/proc/{child}/uid_map").write_text(uid_map)
        Path(f"/proc/{child}/gid_map").write_text(gid_map)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for descriptor in (ready[0], *go):
            os.close(descriptor)
        os.waitpid(child, 0)


def limit_in_user_namespace(pid: int, limits: Mapping[str, int]) -> None:
    """Set limits of a process's user namespace, by the names of their sysctls; those that the kernel lacks are left.

    Only a process inside can set them, and entering cannot be undone, so a forked child does it.

    Raises:
        OSError: They could not be set.
    """
    result, child_end = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            enter_namespace(os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC))
            for name, value in limits.items():
                with contextlib.suppress(FileNotFoundError):
                    Path(f"/proc/sys/user/{name}").write_text(str(value))
            os.write(child_end, b"0")
        except OSError as error:
            os.write(child_end, str(error.errno or errno.EIO).encode())
        finally:
            os._exit(0)
    os.close(child_end)
    try:
        number = int(os.read(result, 16) or errno.EIO)
    finally:
        os.close(result)
        with contextlib.suppress(ChildProcessError):  # the reaper of orphans may have been quicker
            os.waitpid(child, 0)
    if number:
        raise OSError(number, os.strerror(number), "the limits of a user namespace")


def leave_session_keyring() -> None:
    """Leave the session keyring of the daemon for an empty one, which all cages inherit.

    Nothing depends on it: cages see no keys and may not use them. A kernel or container without keyrings has none.
    """
    _libc.syscall(_SYS_KEYCTL[os.uname().machine], _JOIN_SESSION_KEYRING, None)


def exit_status_of(process: int) -> int | None:
    """How a process ended that another process has reaped: an exit code, or a signal as a negative number.

    Args:
        process: A pidfd from when it was alive.

    Returns None when the kernel does not say; it does since 6.15.
    """
    info = bytearray(struct.pack("=Q", _PIDFD_INFO_EXIT)) + bytes(_PIDFD_INFO_SIZE - 8)
    try:
        fcntl.ioctl(process, _PIDFD_GET_INFO, info)
    except OSError:
        return None
    if not struct.unpack_from("=Q", info)[0] & _PIDFD_INFO_EXIT:
        return None
    return os.waitstatus_to_exitcode(struct.unpack_from("=i", info, _PIDFD_INFO_EXIT_CODE)[0])


def become_subreaper() -> None:
    """Become the reaper of orphaned descendants, in place of the host's init."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None) -> None:
    def text(value: str | None) -> bytes | None:
        return None if value is None else os.fsencode(value)

    _check(_libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(options)), source or target)


def _check(result: int, subject: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)
    return result


NO_DESCRIPTORS_CODE = "cage.no_descriptors"
RAISE_NOFILE_HINT = "raise the limit on open files (ulimit -n)"


def is_descriptor_exhaustion(error: OSError) -> bool:
    """Whether the process, or the host, has no free descriptor."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def create_memfd(content: bytes) -> int:
    """Create an anonymous file with this content, positioned at its start; the caller closes it.

    Raises:
        OSError: No descriptor or no memory is free.
    """
    descriptor = os.memfd_create("paddock", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_readable(descriptor: int) -> bool:
    """Whether a descriptor is readable right now; for a pidfd, whether the process has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


_PROC = Path("/proc")


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks; together with the pid it identifies a process for good. None if it is
    gone.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The program's name stands in brackets and may contain anything, brackets too.
    return int(text.rpartition(")")[2].split()[19])


def child_pids(pid: int) -> list[int]:
    """The children of a process, of any of its threads, including adopted ones."""
    pids: list[int] = []
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
        for thread in threads:
            pids += [int(child) for child in (thread / "children").read_text().split()]
    except OSError:
        # Gone while we looked.
        return pids
    return pids


def subtree_pids(pid: int) -> list[int]:
    """The process and all its descendants, parents first."""
    pids = [pid]
    for member in pids:
        # The list grows while it is walked: that is the traversal.
        pids += [child for child in child_pids(member) if child not in pids]
    return pids
