"""Attempts to find something that was left over: powers, descriptors, variables, a namespace shared with the host."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import suppress

from .trying import Facts, Room

room = Room()

ALLOWED_VARIABLES = {
    "HOME", "LANG", "PATH", "TMPDIR", "PADDOCK_LOG_LEVEL", "PADDOCK_PLUGIN_NAME", "PADDOCK_PLUGIN_DIR",
    "PADDOCK_API_VERSION",
}  # fmt: skip


def _status(name: str) -> str:
    with open("/proc/self/status") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith(name + ":"))


@room.attempt("keep a capability")
def _(facts: Facts) -> str | None:
    kept = {name: _status(name) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    return str(kept) if any(int(value, 16) for value in kept.values()) else None


@room.attempt("keep the right to new privileges")
def _(facts: Facts) -> str | None:
    return "it has it" if _status("NoNewPrivs") != "1" else None


@room.attempt("run without a filter of its system calls")
def _(facts: Facts) -> str | None:
    return "none" if _status("Seccomp") != "2" else None


@room.attempt("have another user id")
def _(facts: Facts) -> str | None:
    nobody = 65534
    who = (*os.getresuid(), *os.getresgid())
    groups = set(os.getgroups()) - {nobody}
    return f"{who} {groups}" if set(who) != {nobody} or groups else None


@room.attempt("have more than one user mapped")
def _(facts: Facts) -> str | None:
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}") as file:
            lines = [line.split() for line in file]
        if len(lines) != 1 or (lines[0][0], lines[0][2]) != ("65534", "1"):
            return f"{name}: {lines}"
    return None


@room.attempt("find a descriptor that was left open")
def _(facts: Facts) -> str | None:
    # What the attempt itself opened, and the listing, are above those of the plugin.
    left = [number for number in facts["at_start"] if number > 2]
    return str(left) if left else None


@room.attempt("find a variable of the daemon")
def _(facts: Facts) -> str | None:
    with open("/proc/self/environ", "rb") as file:
        first = file.read().decode()
    if facts["secret"] in first or facts["secret"] in str(os.environ):
        return "the daemon's secret"
    more = set(os.environ) - ALLOWED_VARIABLES
    return str(more) if more else None


@room.attempt("learn the name of the host")
def _(facts: Facts) -> str | None:
    return None if socket.gethostname() == "cage" else socket.gethostname()


def _shares(kind: str) -> None:
    @room.attempt(f"share the {kind} namespace with the host")
    def _(facts: Facts) -> str | None:
        own = os.readlink(f"/proc/self/ns/{kind}")
        return own if own == facts["namespaces"][kind] else None


for _kind in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts"):
    _shares(_kind)


@room.attempt("share a namespace with another plugin")
def _(facts: Facts) -> str | None:
    shared = [kind for kind, other in facts["neighbours_namespaces"].items()
              if os.readlink(f"/proc/self/ns/{kind}") == other]  # fmt: skip
    return str(shared) if shared else None


@room.attempt("be dumped by a program of the host when it crashes")
def _(facts: Facts) -> str | None:
    # 0 stops files only: a handler that the kernel starts outside the cage is stopped by 1, and by nothing else.
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    return None if (soft, hard) == (1, 1) else f"{soft}, {hard}"


@room.attempt("raise a limit again")
def _(facts: Facts) -> str | None:
    for name in ("CORE", "NOFILE", "FSIZE", "MEMLOCK", "MSGQUEUE", "RTPRIO", "NICE"):
        number = getattr(resource, f"RLIMIT_{name}", 13)
        soft, hard = resource.getrlimit(number)
        if hard == resource.RLIM_INFINITY:
            return f"{name} was never lowered"
        with suppress(OSError, ValueError):
            resource.setrlimit(number, (soft, hard + 1))
            return f"raised {name}"
    return None
