"""Attempts to run what was not granted, or with more powers than the plugin has."""

from __future__ import annotations

import ctypes
import os
import shutil
from contextlib import suppress

from .trying import Facts, Room, call, libc

room = Room()

SCRIPT = b"#!/proc/self/exe\n"
PROGRAMS = ("/bin/sh", "/usr/bin/bash", "/usr/bin/curl", "/usr/bin/env", "/usr/bin/perl", "/usr/bin/id", "/usr/bin/git")


def run(path: str, *arguments: str) -> str | None:
    """Whether a program could be started at all; None when it could not."""
    child = os.fork()
    if child == 0:
        nowhere = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        with suppress(OSError):
            os.execv(path, [path, *arguments])
        os._exit(127)
    _, status = os.waitpid(child, 0)
    return None if os.WIFEXITED(status) and os.WEXITSTATUS(status) in (126, 127) else f"{path} ran ({status})"


def _run_copy(facts: Facts, place: str) -> str | None:
    """A program that may run, copied to a place where nothing may."""
    copy = f"{place}/copy"
    shutil.copyfile(facts["python"], copy)
    os.chmod(copy, 0o755)
    try:
        return run(copy, "-I", "-S", "-c", "pass")
    finally:
        os.unlink(copy)


@room.attempt("run a program that was not granted")
def _(facts: Facts) -> str | None:
    return next((ran for ran in (run(path, "--version") for path in PROGRAMS) if ran), None)


@room.attempt("have the loader run a program that was not granted")
def _(facts: Facts) -> str | None:
    for loader in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"):
        for path in PROGRAMS:
            # The loader tells that it cannot with the same status as a shell.
            ran = run(loader, path, "--version")
            if ran:
                return ran
    return None


@room.attempt("run a program that it wrote to /tmp")
def _(facts: Facts) -> str | None:
    return _run_copy(facts, "/tmp")


@room.attempt("run a program that it wrote to /dev/shm")
def _(facts: Facts) -> str | None:
    return _run_copy(facts, "/dev/shm")


@room.attempt("run a program from memory")
def _(facts: Facts) -> str | None:
    for flags in (0, 1, 0x10, 0x8):
        with suppress(OSError), open(facts["python"], "rb") as source:
            memory = os.memfd_create("program", flags)
            os.set_inheritable(memory, True)
            os.write(memory, source.read())
            ran = run(f"/proc/self/fd/{memory}", "-I", "-S", "-c", "pass")
            if ran:
                return ran
    return None


@room.attempt("run a program by its descriptor")
def _(facts: Facts) -> str | None:
    descriptor = os.open(facts["python"], os.O_RDONLY)
    words = (ctypes.c_char_p * 5)(b"python", b"-IS", b"-c", b"pass", None)
    call(facts["numbers"]["execveat"], descriptor, b"", words, None, 0x1000)
    return "it ran"


@room.attempt("become root by a set-user-id program")
def _(facts: Facts) -> str | None:
    found = [path for path in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/sudo", "/usr/bin/newuidmap")
             if os.path.exists(path)]  # fmt: skip
    return next((ran for ran in (run(path, "--version") for path in found) if ran), None)


@room.attempt("leave a set-user-id program in /tmp")
def _(facts: Facts) -> str | None:
    os.close(os.open("/tmp/mine", os.O_CREAT | os.O_WRONLY, 0o755))
    for change in (
        lambda: os.chmod("/tmp/mine", 0o4755),
        lambda: os.chmod("/tmp/mine", 0o2755),
        lambda: os.close(os.open("/tmp/other", os.O_CREAT | os.O_WRONLY, 0o4755)),
        lambda: os.close(os.open("/tmp", os.O_TMPFILE | os.O_WRONLY, 0o4755)),
        lambda: call(facts["numbers"]["fchmodat2"], -100, b"/tmp/mine", 0o6755, 0),
        lambda: os.mknod("/tmp/third", 0o104755),
    ):
        with suppress(OSError):
            change()
            return oct(os.stat("/tmp/mine").st_mode)
    return None


@room.attempt("become root by asking")
def _(facts: Facts) -> str | None:
    for become in (
        lambda: os.setuid(0),
        lambda: os.setresuid(0, 0, 0),
        lambda: os.setgid(0),
        lambda: os.setgroups([0]),
    ):
        with suppress(OSError):
            become()
            return f"now {os.getuid()}:{os.getgid()} {os.getgroups()}"
    return None


@room.attempt("take back the right to new privileges")
def _(facts: Facts) -> str | None:
    no_new_privileges = 38
    ctypes.set_errno(0)
    return "taken" if libc.prctl(no_new_privileges, 0, 0, 0, 0) == 0 else None


@room.attempt("give itself a capability")
def _(facts: Facts) -> str | None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    everything = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
    if libc.capset(header, everything) == 0:
        return "all of them"
    raise_ambient, capability = 2, 21
    return "an ambient one" if libc.prctl(47, raise_ambient, capability, 0, 0) == 0 else None


@room.attempt("turn off the randomness of addresses for what it starts")
def _(facts: Facts) -> str | None:
    no_randomness = 0x0040000
    return f"personality {call(facts['numbers']['personality'], no_randomness)}"
