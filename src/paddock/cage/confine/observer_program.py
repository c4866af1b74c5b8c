"""The observer of one learning cage: a program that reads which files and addresses the plugin names, and lets each
call go on.

    python -I -S observer_program.py LISTENER [NOBODY]

It decides nothing. Every call is continued, and the walls of the cage allow or refuse it as always; so it does not
matter that a plugin can change a path between our reading it and the kernel's. It writes one line of JSON for each new
observation to its standard output, and ends when no process of the cage is left. It runs apart from the daemon, so
that a plugin that floods it takes time from no other, and as user nobody where the daemon is root; that user may not
read our Python's library, so that nothing is imported after the start.

This file stands alone, because it runs isolated: it imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import json
import os
import posixpath
import select
import struct
import sys
from typing import NamedTuple

MAX_OBSERVATIONS = 20_000  # different ones; a large server names some 5,000 files
MAX_CALLS = 1_000_000
MAX_PATH_BYTES = 4096
FLOODED = "flooded"  # the last line's access, where one of these limits was reached

_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104  # ioctls of a seccomp listener
_CONTINUE = 1
_SYNCHRONOUS_WAKE_UP = 1  # the plugin and we take turns, on one CPU (since Linux 6.6)
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # id, pid, flags, call, machine, instruction, arguments
_RESPONSE = struct.Struct("=QqiI")
_PAGE_BYTES = 4096
_WORKING_DIRECTORY = 0xFFFF_FF9C  # AT_FDCWD
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_EXECUTE_MODE, _WRITE_MODE = os.X_OK, os.W_OK
_INET, _INET6 = 2, 10
_MAX_ADDRESS_BYTES = 28
_LISTENING = b"0A"  # in /proc/net/tcp

LOOK, READ, WRITE, EXECUTE, CONNECT = "look", "read", "write", "execute", "connect"


class Call(NamedTuple):
    """A system call that names files: its numbers on x86_64 and aarch64, and where its arguments are."""

    numbers: tuple[int | None, int | None]
    access: str
    paths: tuple[int, ...] = (0,)  # the arguments that are paths
    relative: bool = False  # whether each path follows the descriptor of its directory
    flags: int | None = None  # the argument with the flags of `open`
    mode: int | None = None  # the argument with the mode of `access`


CALLS: dict[str, Call] = {
    "access": Call((21, None), LOOK, mode=1),
    "chdir": Call((80, 49), LOOK),
    "connect": Call((42, 203), CONNECT, ()),
    "creat": Call((85, None), WRITE),
    "execve": Call((59, 221), EXECUTE),
    "faccessat": Call((269, 48), LOOK, (1,), relative=True, mode=2),
    "faccessat2": Call((439, 439), LOOK, (1,), relative=True, mode=2),
    "lstat": Call((6, None), LOOK),
    "mkdir": Call((83, None), WRITE),
    "mkdirat": Call((258, 34), WRITE, (1,), relative=True),
    "newfstatat": Call((262, 79), LOOK, (1,), relative=True),
    "open": Call((2, None), READ, flags=1),
    "openat": Call((257, 56), READ, (1,), relative=True, flags=2),
    "readlink": Call((89, None), LOOK),
    "readlinkat": Call((267, 78), LOOK, (1,), relative=True),
    "rename": Call((82, None), WRITE, (0, 1)),
    "renameat": Call((264, 38), WRITE, (1, 3), relative=True),
    "renameat2": Call((316, 276), WRITE, (1, 3), relative=True),
    "rmdir": Call((84, None), WRITE),
    "stat": Call((4, None), LOOK),
    "statx": Call((332, 291), LOOK, (1,), relative=True),
    "truncate": Call((76, 45), WRITE),
    "unlink": Call((87, None), WRITE),
    "unlinkat": Call((263, 35), WRITE, (1,), relative=True),
}


class Observer:
    """Serves one listener.

    Args:
        listener: The seccomp listener of the cage.
        machine: The architecture.
    """

    def __init__(self, listener: int, machine: str) -> None:
        column = ("x86_64", "aarch64").index(machine)
        self._calls = {call.numbers[column]: call for call in CALLS.values() if call.numbers[column] is not None}
        self._listener = listener
        self._seen: set[tuple[str, str]] = set()
        self._count = 0

    def serve(self) -> None:
        """Observe until the cage is empty, or a limit is reached."""
        with contextlib.suppress(OSError):  # an older kernel
            fcntl.ioctl(self._listener, _SET_FLAGS, _SYNCHRONOUS_WAKE_UP)
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            events = poll.poll()[0][1]
            if not events & select.POLLIN:
                return
            message = bytearray(_NOTIFICATION.size)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, message)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):
                    continue  # the process was killed meanwhile
                raise
            notice, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(message)
            self._count += 1
            found: list[tuple[str, str]] = []
            # Contained: whatever a plugin makes us read, the next call is observed too.
            with contextlib.suppress(Exception):
                found = _subjects(pid, self._calls[number], arguments)
            if self._count > MAX_CALLS or len(self._seen) > MAX_OBSERVATIONS:
                self._write(FLOODED, "")
                return
            try:
                fcntl.ioctl(self._listener, _SEND, _RESPONSE.pack(notice, 0, 0, _CONTINUE))
            except OSError:
                continue  # killed meanwhile: the pid may have been another process's by then
            self._record(found)

    def _record(self, found: list[tuple[str, str]]) -> None:
        for access, named in found:
            subject = named if access == CONNECT else posixpath.normpath(named)
            if (access, subject) not in self._seen:
                self._seen.add((access, subject))
                self._write(access, subject)

    def _write(self, access: str, subject: str) -> None:
        sys.stdout.write(json.dumps([access, subject]) + "\n")


def _subjects(pid: int, call: Call, arguments: list[int]) -> list[tuple[str, str]]:
    """What a call names, each with the access. Another thread of the plugin may change it meanwhile."""
    if call.access == CONNECT:
        return [(CONNECT, address)] if (address := _address(pid, arguments[1], arguments[2])) else []
    access = _access(call, arguments)
    return [(access, path) for place in call.paths if (path := _path(pid, call, arguments, place))]


def _access(call: Call, arguments: list[int]) -> str:
    if call.flags is not None and arguments[call.flags] & _WRITE_FLAGS:
        return WRITE
    if call.mode is not None and arguments[call.mode] & _WRITE_MODE:
        return WRITE
    if call.mode is not None and arguments[call.mode] & _EXECUTE_MODE:
        return EXECUTE
    return call.access


def _path(pid: int, call: Call, arguments: list[int], place: int) -> str:
    """The absolute path that an argument means, as it is spelled; empty where it names none."""
    text = os.fsdecode(_read_string(pid, arguments[place]))
    if text.startswith("/"):
        return text
    if not text:
        return ""
    descriptor = arguments[place - 1] & 0xFFFF_FFFF if call.relative else _WORKING_DIRECTORY
    base = "cwd" if descriptor == _WORKING_DIRECTORY else f"fd/{descriptor}"
    return posixpath.join(os.readlink(f"/proc/{pid}/{base}"), text)  # noqa: PTH115


def _address(pid: int, pointer: int, length: int) -> str:
    """Address and port of a connect, as `ADDRESS PORT`; empty where a process of the cage itself listens there."""
    data = _read_memory(pid, pointer, min(length, _MAX_ADDRESS_BYTES))
    family, port = struct.unpack_from("=H", data)[0], struct.unpack_from("!H", data, 2)[0]
    if family == _INET:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.IPv4Address(data[4:8])
    elif family == _INET6:
        six = ipaddress.IPv6Address(data[8:24])
        address = six.ipv4_mapped or six
    else:
        return ""
    if not port or (address.is_loopback and _listens(pid, port)):
        return ""
    return f"{address} {port}"


def _listens(pid: int, port: int) -> bool:
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", "rb") as lines:  # noqa: PTH123
            rows = (line.split() for line in lines)
            if any(row[3] == _LISTENING and int(row[1].rpartition(b":")[2], 16) == port for row in rows):
                return True
    return False


class _MemoryRange(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    def cover(self, base: int, length: int) -> None:
        self.base, self.length = base, length


# Made once: the plugin waits while we read.
_libc = ctypes.CDLL(None, use_errno=True)
_buffer = ctypes.create_string_buffer(_PAGE_BYTES)
_bytes_read = memoryview(_buffer).cast("B")
_buffer_address = ctypes.addressof(_buffer)
_ours, _theirs = _MemoryRange(), _MemoryRange()
_ours_reference, _theirs_reference = ctypes.byref(_ours), ctypes.byref(_theirs)


def _read_memory(pid: int, address: int, length: int) -> bytes:
    """Read a process's memory.

    Raises:
        OSError: It is gone, or has no memory there.
    """
    _ours.cover(_buffer_address, length)
    _theirs.cover(address, length)
    count = _libc.process_vm_readv(pid, _ours_reference, 1, _theirs_reference, 1, 0)
    if count < 0:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    return _bytes_read[:count].tobytes()


def _read_string(pid: int, address: int) -> bytes:
    """Read a text that ends with a NUL, page by page: the next page may not exist."""
    text = b""
    while len(text) < MAX_PATH_BYTES:
        chunk = _read_memory(pid, address, min(256, _PAGE_BYTES - address % _PAGE_BYTES))
        head, ended, _ = chunk.partition(b"\0")
        text += head
        if ended or not chunk:
            return text
        address += len(chunk)
    return b""  # longer than any path that the kernel takes


def main() -> None:
    if len(sys.argv) > 2:
        nobody = int(sys.argv[2])
        os.setgroups([])
        os.setresgid(nobody, nobody, nobody)
        os.setresuid(nobody, nobody, nobody)
    Observer(int(sys.argv[1]), os.uname().machine).serve()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
