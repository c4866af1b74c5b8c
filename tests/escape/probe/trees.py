"""Attempts to turn a granted tree into more than was granted: one tree may be read, another one changed."""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import stat
from contextlib import suppress

from .programs import run
from .trying import Facts, Room, call

room = Room()


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(300).decode("utf-8", "replace")


def _by_descriptor(facts: Facts) -> str:
    return f"/proc/self/fd/{os.open(facts['read'] + '/today.md', os.O_RDONLY)}"


@room.attempt("follow a link out of the tree it may read")
def _(facts: Facts) -> str | None:
    return _read(f"{facts['read']}/way-out")


@room.attempt("plant a link in the tree it may change and follow it")
def _(facts: Facts) -> str | None:
    link = f"{facts['write']}/planted-link"
    os.symlink(facts["secret_file"], link)
    try:
        return _read(link)
    finally:
        os.unlink(link)


@room.attempt("look beside the tree it may read")
def _(facts: Facts) -> str | None:
    return _read(f"{facts['read']}/../secret.txt")


@room.attempt("change a file in the tree it may read")
def _(facts: Facts) -> str | None:
    for action in (
        lambda: os.close(os.open(f"{facts['read']}/today.md", os.O_WRONLY)),
        lambda: os.truncate(f"{facts['read']}/today.md", 0),
        lambda: os.unlink(f"{facts['read']}/today.md"),
        lambda: os.chmod(f"{facts['read']}/today.md", 0o777),
        lambda: os.utime(f"{facts['read']}/today.md"),
        lambda: os.setxattr(f"{facts['read']}/today.md", "user.mine", b"1"),
        lambda: os.rename(f"{facts['read']}/today.md", f"{facts['read']}/tomorrow.md"),
        lambda: os.mkdir(f"{facts['read']}/planted"),
    ):
        with suppress(OSError):
            action()
            return "changed it"
    return None


@room.attempt("link a file it may only read into the tree it may change")
def _(facts: Facts) -> str | None:
    target = f"{facts['write']}/linked"
    for action in (
        lambda: os.link(f"{facts['read']}/today.md", target),
        lambda: os.rename(f"{facts['read']}/today.md", target),
        lambda: os.link(_by_descriptor(facts), target, follow_symlinks=True),
    ):
        with suppress(OSError):
            action()
            return "linked it"
    return None


@room.attempt("link a library of the host into the tree it may change")
def _(facts: Facts) -> str | None:
    os.link(os.__file__, f"{facts['write']}/os.py")
    return "linked it"


@room.attempt("write to a program of the host through a pipe in the tree it may read")
def _(facts: Facts) -> str | None:
    descriptor = os.open(f"{facts['read']}/door", os.O_WRONLY | os.O_NONBLOCK)
    return f"wrote {os.write(descriptor, b'hello')} bytes"


@room.attempt("connect to a service of the host by a socket in the tree it may read")
def _(facts: Facts) -> str | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.connect(f"{facts['read']}/service")
        return "connected"


@room.attempt("send to a service of the host from one of a pair of sockets")
def _(facts: Facts) -> str | None:
    one, _other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"hello", f"{facts['read']}/datagrams")
    return "sent it"


@room.attempt("use a device that lies in the tree it may read")
def _(facts: Facts) -> str | None:
    return str(os.read(os.open(f"{facts['read']}/device", os.O_RDONLY), 1))


@room.attempt("use a device that lies in the tree it may change")
def _(facts: Facts) -> str | None:
    return str(os.read(os.open(f"{facts['write']}/device", os.O_RDWR), 1))


@room.attempt("run a program of the tree it may read")
def _(facts: Facts) -> str | None:
    return run(f"{facts['read']}/program", "--version")


@room.attempt("run a program that it wrote to the tree it may change")
def _(facts: Facts) -> str | None:
    copy = f"{facts['write']}/copy"
    shutil.copyfile(facts["python"], copy)
    os.chmod(copy, 0o755)
    try:
        return run(copy, "-I", "-S", "-c", "pass")
    finally:
        os.unlink(copy)


@room.attempt("leave a set-user-id program in the tree it may change")
def _(facts: Facts) -> str | None:
    mine = f"{facts['write']}/mine"
    os.close(os.open(mine, os.O_CREAT | os.O_WRONLY, 0o755))
    for change in (
        lambda: os.chmod(mine, 0o4755),
        lambda: os.chmod(mine, 0o2755),
        lambda: os.close(os.open(mine + "2", os.O_CREAT | os.O_WRONLY, 0o4755)),
        lambda: os.mknod(mine + "3", 0o104755),
        lambda: call(facts["numbers"]["fchmodat2"], -100, os.fsencode(mine), 0o6755, 0),
        lambda: os.mkdir(mine + "4", 0o6755),
    ):
        with suppress(OSError):
            change()
    left = [name for name in os.listdir(facts["write"]) if name.startswith("mine")]
    modes = [os.stat(f"{facts['write']}/{name}").st_mode for name in left]
    return oct(max(modes)) if any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in modes) else None


@room.attempt("rewrite a set-user-id program of the host")
def _(facts: Facts) -> str | None:
    path = f"{facts['write']}/powerful"
    with open(path, "r+b") as file:
        file.write(b"mine")
    return "it kept its powers" if os.stat(path).st_mode & stat.S_ISUID else None


@room.attempt("rewrite a set-user-id program of the host in memory")
def _(facts: Facts) -> str | None:
    path = f"{facts['write']}/powerful-too"
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 4) as area:
        area[:] = b"mine"
        area.flush()
    return "it kept its powers" if os.stat(path).st_mode & stat.S_ISUID else None


@room.attempt("read a private file of root in the tree it may read")
def _(facts: Facts) -> str | None:
    return _read(f"{facts['read']}/private")


@room.attempt("read a private file of another user in the tree it may change")
def _(facts: Facts) -> str | None:
    return _read(f"{facts['write']}/others")


@room.attempt("take over the file of another user in the tree it may change")
def _(facts: Facts) -> str | None:
    path = f"{facts['write']}/others"
    for action in (lambda: os.chmod(path, 0o666), lambda: os.chown(path, os.getuid(), os.getgid())):
        with suppress(OSError):
            action()
            return "took it over"
    return None


@room.attempt("write a single file larger than it may to the tree it may change")
def _(facts: Facts) -> str | None:
    path = f"{facts['write']}/large"
    try:
        with open(path, "wb") as file:
            file.truncate(facts["write_bytes"] + 1)
    finally:
        os.unlink(path)
    return "wrote it"
