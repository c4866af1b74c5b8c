"""Attempts to use more of the machine than was given. Each stops by itself a little above its limit."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import threading
from contextlib import suppress

from .trying import Facts, Room, call, checked, libc

room = Room()

MIB = 1 << 20


def _fill(place: str, most: int) -> str | None:
    """Write files until there is no room."""
    written, block = 0, bytes(MIB)
    names: list[str] = []
    try:
        while written < most:
            names.append(f"{place}/fill-{len(names)}")
            with open(names[-1], "wb", buffering=0) as file:
                for _ in range(8):
                    written += file.write(block)
    except OSError:
        return None
    finally:
        for name in names:
            with suppress(OSError):
                os.unlink(name)
    return f"wrote {written >> 20} MiB"


@room.attempt("start more processes than it may")
def _(facts: Facts) -> str | None:
    started: list[int] = []
    try:
        while len(started) < facts["pids"] + 20:
            child = os.fork()
            if child == 0:
                signal.pause()
            started.append(child)
    except OSError:
        return None
    finally:
        for child in started:
            os.kill(child, signal.SIGKILL)
        for child in started:
            os.waitpid(child, 0)
    return f"started {len(started)}"


@room.attempt("start more threads than it may")
def _(facts: Facts) -> str | None:
    over = threading.Event()
    started: list[threading.Thread] = []
    try:
        while len(started) < facts["pids"] + 20:
            started.append(threading.Thread(target=over.wait, daemon=True))
            started[-1].start()
    except RuntimeError:
        return None
    finally:
        over.set()
    return f"started {len(started)}"


@room.attempt("fill the memory through /tmp")
def _(facts: Facts) -> str | None:
    return _fill("/tmp", facts["tmp_bytes"] + 16 * MIB)


@room.attempt("fill the memory through /dev/shm")
def _(facts: Facts) -> str | None:
    return _fill("/dev/shm", facts["tmp_bytes"] + 16 * MIB)


@room.attempt("fill the memory through the places that the cage is made of")
def _(facts: Facts) -> str | None:
    for place in ("/", "/dev", "/dev/pts", "/.cage", "/etc", "/run", "/var", facts["own_folder"]):
        with suppress(OSError):
            with open(f"{place}/fill", "wb") as file:
                file.write(bytes(MIB))
            return f"wrote to {place}"
    return None


@room.attempt("fill the memory through files that have no name")
def _(facts: Facts) -> str | None:
    for flags in (0, 1, 8, 9):
        with suppress(OSError):
            os.memfd_create("hidden", flags)
            return f"one with flags {flags}"
    return None


@room.attempt("fill the memory through shared segments")
def _(facts: Facts) -> str | None:
    create, private = 0o1600, 0
    number = checked(libc.shmget(private, ctypes.c_size_t(MIB), create))
    libc.shmctl(number, 0, None)
    return f"segment {number}"


@room.attempt("fill the memory through queues and semaphores")
def _(facts: Facts) -> str | None:
    create, private = 0o1600, 0
    for make, remove in (
        (lambda: libc.msgget(private, create), lambda number: libc.msgctl(number, 0, None)),
        (lambda: libc.semget(private, 1000, create), lambda number: libc.semctl(number, 0, 0)),
    ):
        with suppress(OSError):
            number = checked(make())
            remove(number)
            return f"number {number}"
    return None


@room.attempt("write a file larger than it may")
def _(facts: Facts) -> str | None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # A hole takes no room: only the limit on its size can refuse it.
    with open("/tmp/large", "wb") as file:
        file.truncate(facts["write_bytes"] + 1)
        return "wrote it"


@room.attempt("open more files than it may")
def _(facts: Facts) -> str | None:
    opened: list[int] = []
    try:
        while len(opened) < facts["open_files"]:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return None
    return f"opened {len(opened)}"


@room.attempt("take the file watches of its user")
def _(facts: Facts) -> str | None:
    opened: list[int] = []
    try:
        while len(opened) < 40:
            opened.append(checked(libc.inotify_init1(os.O_CLOEXEC)))
    except OSError:
        return None
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return f"made {len(opened)} instances"


@room.attempt("keep memory from being swapped")
def _(facts: Facts) -> str | None:
    area = mmap.mmap(-1, MIB)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    checked(libc.mlock(ctypes.c_void_p(start), ctypes.c_size_t(MIB)))
    return "kept it"


@room.attempt("make a queue of messages")
def _(facts: Facts) -> str | None:
    create_and_write = os.O_CREAT | os.O_WRONLY
    queue = call(facts["numbers"]["mq_open"], b"mine", create_and_write, 0o600, None)
    return f"queue {queue}"


@room.attempt("use shared memory of the host")
def _(facts: Facts) -> str | None:
    return str(checked(libc.shmget(facts["shared_key"], ctypes.c_size_t(1), 0)))


@room.attempt("use a queue of the host")
def _(facts: Facts) -> str | None:
    return str(checked(libc.msgget(facts["shared_key"], 0)))


@room.attempt("use semaphores of the host")
def _(facts: Facts) -> str | None:
    return str(checked(libc.semget(facts["shared_key"], 0, 0)))
