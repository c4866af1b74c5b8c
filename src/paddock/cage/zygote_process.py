"""The zygote: a Python interpreter that waits in an outer cage and turns copies of itself into plugins.

It runs as a program inside that cage, with this package's few files beside it. An order is nothing but descriptors:
the zygote forks, and only the copy reads what is in them, so that nothing of one plugin (its secrets are in its
environment) is ever in the memory that the next one is copied from.

Every copy becomes two processes: the first one of a new pid namespace, which waits for the end of everything in it, and
the plugin. A first process ignores signals it has no handler for; a plugin must not.

    warden → copy    the order file; `go`
    copy → warden    `ready` with descriptors of both processes · `ended STATUS` · `failed WHY`
"""

from __future__ import annotations

import array
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import sys
from typing import Any, NamedTuple

from paddock.cage import trampoline, zygote_walls

# What plugins import most; each costs its memory once for all plugins, and every plugin the time otherwise.
WARM = ("asyncio", "base64", "dataclasses", "datetime", "hashlib", "logging", "pathlib", "random", "uuid")
OURS = "paddock"  # modules that a plugin must not find loaded

MOST_DESCRIPTORS = 6
LONGEST_MESSAGE = 4096


class Order(NamedTuple):
    """The descriptors that come with one request."""

    file: int  # what is asked for, as JSON
    stdin: int
    stdout: int
    stderr: int
    control: int  # a sequenced-packet socket to the warden
    tree: int | None = None  # the plugin's files as a mount, where the warden can make one


class Program(NamedTuple):
    """What is left to do when every wall stands."""

    script: str
    arguments: list[str]


def main() -> Program:
    """Serve until the warden hangs up. Returns in the copies alone, as the plugin-to-be, behind its walls."""
    warden = socket.socket(fileno=int(sys.argv[1]))
    _warm_up()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # Nobody asks how a copy ended: it tells the warden itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    warden.send(b"warm")
    while True:
        order = _next_order(warden)
        if order is None:
            os._exit(0)
        zygote_walls.new_pids_for_children()
        if os.fork() == 0:
            warden.close()
            os.close(own_pids)
            return _become_plugin(order)
        zygote_walls.old_pids_for_children(own_pids)
        for descriptor in order:
            if descriptor is not None:
                os.close(descriptor)


def _warm_up() -> None:
    for name in WARM:
        __import__(name)
    gc.collect()
    # What is loaded stays: a collection in a copy then touches none of it, and the memory stays shared.
    gc.freeze()


def _next_order(warden: socket.socket) -> Order | None:
    size = array.array("i").itemsize
    _, ancillary, _, _ = warden.recvmsg(16, socket.CMSG_LEN(MOST_DESCRIPTORS * size), socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            return Order(*array.array("i", data))
    return None


def _become_plugin(order: Order) -> Program:
    """Be the first process of the cage, and have the plugin for a child. Returns in the child alone."""
    control = socket.socket(fileno=order.control)
    try:
        zygote_walls.die_with_parent()
        with open(order.file, "rb") as file:  # noqa: PTH123
            asked: dict[str, Any] = json.loads(file.read())
        # Our own /proc will be read-only, and the last steps have to write to it.
        proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        zygote_walls.new_surroundings()
        os.setsid()
        tree = zygote_walls.open_tree(asked["root"]) if order.tree is None else order.tree
        zygote_walls.own_view(
            tree=tree, root=asked["root"], trees=asked["trees"], tmp_bytes=asked["tmp_bytes"], etc=asked["etc"]
        )
        os.close(tree)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        plugin = os.fork()
        if plugin == 0:
            return _stand_behind_walls(order, asked, proc, control)
        for descriptor in (proc, order.stdin, order.stdout, order.stderr):
            os.close(descriptor)
        # A first process ignores what it has no handler for.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        zygote_walls.drop_capabilities()
        status = _wait_for(plugin)
        control.send(b"ended %d" % status)
    except BaseException as error:
        # Whatever happened, a copy must not go on as the zygote.
        control.send(f"failed {type(error).__name__}: {error}".encode()[:LONGEST_MESSAGE])
        os._exit(trampoline.REFUSED)
    os._exit(0)


def _stand_behind_walls(order: Order, asked: dict[str, Any], proc: int, control: socket.socket) -> Program:
    zygote_walls.become_nobody(proc)
    processes = array.array("i", [os.pidfd_open(1), os.pidfd_open(os.getpid())])
    for number, descriptor in enumerate((order.stdin, order.stdout, order.stderr)):
        os.dup2(descriptor, number)
    control, processes = _close_all_but(control, processes)
    environment = trampoline.confine(asked["orders"].encode("utf-8", "surrogateescape"))
    os.environb.clear()
    os.environb.update(environment)
    os.chdir(asked["directory"])
    zygote_walls.filter_system_calls(bytes.fromhex(asked["seccomp"]))
    control.sendmsg([b"ready"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, processes)])
    for descriptor in processes:
        os.close(descriptor)
    # The warden now limits what we may use and opens what we may reach.
    if control.recv(LONGEST_MESSAGE) != b"go":
        os._exit(trampoline.REFUSED)
    control.close()
    return Program(asked["script"], asked["arguments"])


def _close_all_but(control: socket.socket, processes: array.array[int]) -> tuple[socket.socket, array.array[int]]:
    """Close everything but the three streams and these, which get new numbers."""
    above = 1 + max(control.fileno(), *processes)
    kept = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in (control.fileno(), *processes)]
    control.detach()
    os.closerange(3, above)
    os.closerange(max(kept) + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    return socket.socket(fileno=kept[0]), array.array("i", kept[1:])


def _wait_for(plugin: int) -> int:
    """How the plugin ended; orphans of the cage are reaped on the way, and whatever is left ends with us."""
    while True:
        pid, status = os.wait()
        if pid == plugin:
            return status


def forget_ourselves(program: Program) -> None:
    """Leave the interpreter as it would be if it had just been started for the script."""
    for name in [name for name in sys.modules if name.partition(".")[0] == OURS]:
        del sys.modules[name]
    sys.orig_argv[1:] = [program.script, *program.arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(program.script))  # noqa: PTH120
    sys.argv = [program.script, *program.arguments]


if __name__ == "__main__":
    wanted = main()
    forget_ourselves(wanted)
    # At the top of the stack: when the script is over the interpreter ends as it always does, with its exit handlers.
    trampoline.run_as_main(wanted.script)
