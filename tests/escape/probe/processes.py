"""Attempts to see, disturb or become a process outside, and to get out of the cage's namespaces."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
from contextlib import suppress

from .trying import Facts, Room, call, checked, libc

room = Room()

NEW_USER, NEW_MOUNTS, NEW_NET = 0x10000000, 0x00020000, 0x40000000


def _hit(pid: int) -> str | None:
    """A signal that a process survives: whoever gets it is proven to be in reach."""
    os.kill(pid, 0)
    os.kill(pid, signal.SIGWINCH)
    return f"reached {pid}"


@room.attempt("signal a process of the host")
def _(facts: Facts) -> str | None:
    return _hit(facts["victim"])


@room.attempt("signal another plugin")
def _(facts: Facts) -> str | None:
    return _hit(facts["neighbour"])


@room.attempt("signal a process of the host through a handle")
def _(facts: Facts) -> str | None:
    signal.pidfd_send_signal(os.pidfd_open(facts["victim"]), signal.SIGWINCH)
    return "reached it"


@room.attempt("see processes that are not its own")
def _(facts: Facts) -> str | None:
    # The first process, the plugin, and this attempt.
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return str(pids) if len(pids) > 3 else None


@room.attempt("read the environment of the first process")
def _(facts: Facts) -> str | None:
    with open("/proc/1/environ", "rb") as file:
        return file.read().decode() or None


@room.attempt("find a secret on the command line of the first process")
def _(facts: Facts) -> str | None:
    with open("/proc/1/cmdline", "rb") as file:
        text = file.read().decode()
    return text if facts["secret"] in text or "/run/" in text else None


@room.attempt("look through the eyes of the first process")
def _(facts: Facts) -> str | None:
    for name in ("root", "cwd", "exe"):
        with suppress(OSError):
            return os.readlink(f"/proc/1/{name}")
    return None


@room.attempt("use the descriptors of the first process")
def _(facts: Facts) -> str | None:
    for number in range(16):
        with suppress(OSError):
            os.close(os.open(f"/proc/1/fd/{number}", os.O_RDONLY | os.O_NONBLOCK))
            return f"opened its {number}"
    return None


@room.attempt("read the memory of the first process")
def _(facts: Facts) -> str | None:
    with open("/proc/1/mem", "rb"):
        return "opened it"


@room.attempt("write to the memory of the first process")
def _(facts: Facts) -> str | None:
    with open("/proc/1/mem", "r+b"):
        return "opened it"


@room.attempt("trace the first process")
def _(facts: Facts) -> str | None:
    seize = 0x4206
    call(facts["numbers"]["ptrace"], seize, 1, 0, 0)
    return "traced it"


@room.attempt("trace its own child past the walls")
def _(facts: Facts) -> str | None:
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        seize = 0x4206
        call(facts["numbers"]["ptrace"], seize, child, 0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
    return "traced it"


@room.attempt("read the memory of its parent by a system call")
def _(facts: Facts) -> str | None:
    target, copy = ctypes.create_string_buffer(b"what is here", 16), ctypes.create_string_buffer(16)
    remote = (ctypes.c_size_t * 2)(ctypes.addressof(target), 12)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(copy), 12)
    call(facts["numbers"]["process_vm_readv"], os.getppid(), local, 1, remote, 1)
    return "read it"


@room.attempt("take a descriptor out of its parent")
def _(facts: Facts) -> str | None:
    return str(call(facts["numbers"]["pidfd_getfd"], os.pidfd_open(os.getppid()), 0, 0))


@room.attempt("enter the namespaces of the first process")
def _(facts: Facts) -> str | None:
    for name in ("user", "mnt", "net", "pid"):
        with suppress(OSError):
            descriptor = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
            call(facts["numbers"]["setns"], descriptor, 0)
            return f"entered {name}"
    return None


@room.attempt("make a user namespace where it is root")
def _(facts: Facts) -> str | None:
    call(facts["numbers"]["unshare"], NEW_USER)
    return "made it"


@room.attempt("start a child in a user namespace where it is root")
def _(facts: Facts) -> str | None:
    child = call(facts["numbers"]["clone"], NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "started it"


@room.attempt("start one by the newer system call")
def _(facts: Facts) -> str | None:
    order = (ctypes.c_uint64 * 8)(NEW_USER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    child = call(facts["numbers"]["clone3"], order, ctypes.sizeof(order))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "started it"


@room.attempt("mount what it likes in a namespace of its own")
def _(facts: Facts) -> str | None:
    call(facts["numbers"]["unshare"], NEW_USER | NEW_MOUNTS)
    checked(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None))
    return "mounted it"


@room.attempt("change its root directory")
def _(facts: Facts) -> str | None:
    os.chroot("/tmp")
    return "changed it"


@room.attempt("rename the machine")
def _(facts: Facts) -> str | None:
    call(facts["numbers"]["sethostname"], b"mine", 4)
    return "renamed it"


@room.attempt("change the limits of a process of the host")
def _(facts: Facts) -> str | None:
    return str(resource.prlimit(facts["victim"], resource.RLIMIT_NOFILE))


@room.attempt("pin a process of the host to one processor")
def _(facts: Facts) -> str | None:
    os.sched_setaffinity(facts["victim"], os.sched_getaffinity(facts["victim"]))
    return "pinned it"


@room.attempt("make a process of the host slower")
def _(facts: Facts) -> str | None:
    os.setpriority(os.PRIO_PROCESS, facts["victim"], os.getpriority(os.PRIO_PROCESS, facts["victim"]))
    return "made it"


@room.attempt("go before everybody else on the processor")
def _(facts: Facts) -> str | None:
    for push in (
        lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
        lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)),
    ):
        with suppress(OSError):
            push()
            return "pushed ahead"
    return None


@room.attempt("type into a terminal")
def _(facts: Facts) -> str | None:
    ours, theirs = os.openpty()
    os.setsid()
    fcntl.ioctl(theirs, 0x540E, 0)  # TIOCSCTTY
    fcntl.ioctl(theirs, 0x5412, b"x")  # TIOCSTI
    return f"typed into {ours}"


@room.attempt("type into a terminal with high bits set in the request")
def _(facts: Facts) -> str | None:
    ours, theirs = os.openpty()
    os.setsid()
    fcntl.ioctl(theirs, 0x540E, 0)
    ctypes.set_errno(0)
    checked(libc.syscall(facts["numbers"]["ioctl"], theirs, ctypes.c_ulong(0x5412 | 1 << 32), b"x"))
    return f"typed into {ours}"


@room.attempt("find the daemon's terminal")
def _(facts: Facts) -> str | None:
    with suppress(OSError):
        return f"/dev/tty is {os.open('/dev/tty', os.O_RDWR)}"
    others = [name for name in os.listdir("/dev/pts") if name != "ptmx"]
    return str(others) if others else None
