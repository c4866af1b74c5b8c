"""System calls that Python does not offer: mounts, namespaces, and the care for orphans.

Each raises OSError as Python's own do. Only the warden calls them: it has one thread and can be root.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import struct
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

FULL_UID_MAP = ["0", "0", "4294967295"]


def is_host_root() -> bool:
    """Whether we are root of the machine itself, which must not build cages under its own name.

    Root of a container or of a user namespace is not: it cannot become a user that is not mapped.
    """
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == FULL_UID_MAP


def unshare_mounts() -> None:
    """From now on our mounts are seen by us and our children alone; those of the machine, also later ones, by us too.

    So a disk that is mounted while we run can be shown, and one that is unmounted is not kept busy by us.
    """
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount(None, "/", None, _MS_REC | _MS_SLAVE, None)


def enter_namespace(namespace: int) -> None:
    """Live in another namespace from now on, whichever kind it is of (`os.setns` comes with Python 3.12)."""
    _check(_libc.setns(namespace, 0), "setns")


def mount_tmpfs(target: str, options: str) -> None:
    """An empty file system in memory, for small things of ours."""
    _mount("paddock", target, "tmpfs", _MS_NOSUID | _MS_NODEV, options)


def mount_bind(source: int, target: str, user_namespace: int | None = None) -> None:
    """Show a tree at `target` too, with what is mounted in it; its owners changed as that user namespace maps them.

    With what is mounted in it, because what is written to a bare mount point is lost below the mount. What is mounted
    there later does not appear: it would come without the limits that this tree is shown with.

    Args:
        source: A descriptor of it. No path is walked and no file system asked, so that none can keep us waiting.
        target: A mount point of our own.
        user_namespace: A descriptor; None leaves the owners as they are.

    Raises:
        OSError: EINVAL where one of the file systems cannot do it; EPERM where one has been changed like this already.
    """
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    tree = _check(_libc.syscall(_SYS_OPEN_TREE, source, b"", flags | _AT_EMPTY_PATH), target)
    try:
        if user_namespace is None:
            _set_mount_attributes(tree, target)
        else:
            _set_mount_attributes(tree, target, _MOUNT_ATTR_IDMAP, user_namespace)
        moved = _libc.syscall(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
        _check(moved, target)
    finally:
        os.close(tree)


def clone_mount_tree(source: str) -> int:
    """The tree at `source` as a read-only mount that hangs nowhere yet; whoever gets the descriptor may place it."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    tree = _check(_libc.syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), flags), source)
    try:
        _set_mount_attributes(tree, source, _MOUNT_ATTR_READ_ONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV)
    except BaseException:
        os.close(tree)
        raise
    return tree


def _set_mount_attributes(tree: int, about: str, attributes: int = 0, user_namespace: int = 0) -> None:
    """Give every mount of a tree these attributes, and cut it off from what is mounted elsewhere."""
    change = struct.pack("=QQQQ", attributes, 0, _MS_PRIVATE, user_namespace)
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    _check(_libc.syscall(_SYS_MOUNT_SETATTR, tree, b"", flags, change, ctypes.c_size_t(len(change))), about)


def unmount(target: str) -> None:
    """Take a mount away at once, even while something still looks into it."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), target)


def create_mapped_userns(uid_map: str, gid_map: str) -> int:
    """A user namespace with these maps, as a descriptor; nobody lives in it."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        # Whatever happens, the copy of us must not go on as us.
        try:
            made = _libc.unshare(_CLONE_NEWUSER) == 0
            os.write(ready[1], b"y" if made else b"n")
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


def exit_status_of(process: int) -> int | None:
    """How a process ended that somebody else has waited for: an exit code, or a signal as a negative number.

    Args:
        process: A handle of it (pidfd) from when it was alive.

    Returns None when the kernel does not say: it does since 6.15.
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
    """Become the parent of what our children leave behind, in place of the machine's first process."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None) -> None:
    def text(value: str | None) -> bytes | None:
        return None if value is None else os.fsencode(value)

    _check(_libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(options)), source or target)


def _check(result: int, about: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), about)
    return result


NO_DESCRIPTORS_CODE = "cage.no_descriptors"
RAISE_NOFILE_HINT = "raise the limit on open files (ulimit -n)"


def is_descriptor_exhaustion(error: OSError) -> bool:
    """Whether this is the error of a process, or of a machine, without a free descriptor."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def create_memfd(content: bytes) -> int:
    """An anonymous file with this content, read from its start; the caller closes it.

    Raises:
        OSError: no descriptor or no memory is free.
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
    """Whether something is to be read right now; of a process, whether it has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


_PROC = Path("/proc")


def start_ticks(pid: int) -> int | None:
    """When a process began, in ticks; together with the pid it names a process for good. None when there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The program's name stands in brackets and may hold anything, brackets too.
    return int(text.rpartition(")")[2].split()[19])


def child_pids(pid: int) -> list[int]:
    """The processes that this one started, whichever thread did, or that were handed to it."""
    found: list[int] = []
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
        for thread in threads:
            found += [int(child) for child in (thread / "children").read_text().split()]
    except OSError:
        # Gone while we looked.
        return found
    return found


def subtree_pids(pid: int) -> list[int]:
    """The process and everything below it, parents first."""
    found = [pid]
    for member in found:
        # Grows while it is walked: that is the walk.
        found += [child for child in child_pids(member) if child not in found]
    return found
