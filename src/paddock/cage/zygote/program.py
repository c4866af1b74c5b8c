"""The zygote: a Python interpreter that waits in an outer cage and turns copies of itself into plugins.

It runs as a program inside that cage, with this package's few files beside it. One copy is always ready: in namespaces
of its own, but knowing nothing yet. It takes its order itself, so that nothing of one plugin (its secrets are in its
environment) is ever in the memory that the next one is copied from.

A copy is two processes: the first one of a new pid namespace, which waits for the end of everything in it, and the
plugin. A first process ignores signals that it has no handler for; a plugin must not.

What this does not buy: copies of one zygote have the same addresses in memory and the same seed of hashes. A plugin
that finds a hole in the interpreter itself knows those of its neighbours; it still has no way to reach them.

    zygote → warden    `spare` with descriptors (`Spare`), for each copy · `failed WHY`, and it ends
    warden → copy      `order NAME…` with a descriptor for each name (`Order`)
    copy → warden      `ready`: every wall stands · `failed WHY`
    warden → copy      `go`
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from typing import Any, NamedTuple, NoReturn

from paddock.cage.confine import sandbox_init
from paddock.cage.zygote import namespaces

# What plugins import most; each costs its memory once for all plugins, and every plugin the time otherwise.
PRELOADED_MODULES = (
    "paddock_sdk",
    "asyncio",
    "base64",
    "dataclasses",
    "datetime",
    "hashlib",
    "logging",
    "pathlib",
    "random",
    "uuid",
)
HOST_PACKAGE = "paddock"  # modules that a plugin must not find loaded

MAX_MESSAGE_BYTES = 4096
MAX_LOST_COPIES = 3  # copies in a row that end without an order


class SpareDescriptors(NamedTuple):
    """The descriptors with which a copy presents itself."""

    first: int  # the first process of the cage; when it is gone, everything is
    plugin: int
    status: int  # a pipe that will hold how the plugin ended: a decimal number, as wait(2) has it
    control: int  # a sequenced-packet socket to the plugin, until it runs


class RequestDescriptors(NamedTuple):
    """The descriptors of an order."""

    file: int  # what is asked for, as JSON
    stdin: int
    stdout: int
    stderr: int
    artifacts_in: int | None = None  # the plugin's pipes for big bytes, where it has them
    artifacts_out: int | None = None
    tree: int | None = None  # the plugin's files as a mount, where the warden can make one


class PluginProgram(NamedTuple):
    """What is left to do when every wall stands."""

    script: str
    arguments: list[str]


def main() -> PluginProgram:
    """Serve until the warden hangs up. Returns in the copies alone, as the plugin-to-be, behind its walls."""
    warden = socket.socket(fileno=int(sys.argv[1]))
    _preload()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # Nobody here asks how a copy ended: it tells the warden.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    lost = 0
    while lost < MAX_LOST_COPIES:
        told, tell = os.pipe()
        namespaces.unshare_child_pids()
        if os.fork() == 0:
            os.close(told)
            os.close(own_pids)
            return _run_copy(warden, tell)
        namespaces.restore_child_pids(own_pids)
        os.close(tell)
        # Without a word the copy was ended, or something went wrong that the next ones may meet too.
        lost = 0 if os.read(told, 1) else lost + 1
        os.close(told)
    os._exit(0)


def _preload() -> None:
    for name in PRELOADED_MODULES:
        # The SDK is there only where plugins would find it too.
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    gc.collect()
    # What is loaded stays: a collection in a copy then touches none of it, and the memory stays shared.
    gc.freeze()


def _run_copy(warden: socket.socket, tell: int) -> PluginProgram:
    """Be the first process of a cage, and have the plugin for a child. Returns in the child alone."""
    answer = warden
    try:
        namespaces.die_with_parent()
        namespaces.unshare_namespaces()
        os.setsid()
        proc = namespaces.mount_proc_and_devpts()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        status, ended = os.pipe()
        plugin = os.fork()
        if plugin:
            os.dup2(ended, 3)
            os.closerange(4, _descriptors())
            _wait_for_plugin(plugin, 3)
        answer, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        spare = SpareDescriptors(os.pidfd_open(1), os.pidfd_open(os.getpid()), status, theirs.detach())
        socket.send_fds(warden, [b"spare"], spare)
        for descriptor in (*spare, ended, warden.detach()):
            os.close(descriptor)
        said, descriptors, _, _ = socket.recv_fds(
            answer, MAX_MESSAGE_BYTES, len(RequestDescriptors._fields), socket.MSG_CMSG_CLOEXEC
        )
        if not descriptors:
            os._exit(0)
        os.write(tell, b"t")
        given = dict(zip(said.decode().split()[1:], descriptors, strict=True))
        return _confine_self(RequestDescriptors(**given), answer, proc)
    except BaseException as error:
        # Whatever happened, a copy must not go on as the zygote.
        with contextlib.suppress(OSError):
            answer.send(f"failed {type(error).__name__}: {error}".encode()[:MAX_MESSAGE_BYTES])
        os._exit(sandbox_init.EXIT_REFUSED)


def _wait_for_plugin(plugin: int, ended: int) -> NoReturn:
    """Be the first process until the plugin ends, and tell how; whatever is left in the cage ends with us."""
    # Whoever is interrupted, it is not us.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    namespaces.drop_capabilities()
    while True:
        pid, status = os.wait()
        if pid == plugin:
            # Where nobody reads it any more the warden is gone, and so are we.
            with contextlib.suppress(OSError):
                os.write(ended, b"%d" % status)
            os._exit(0)


def _confine_self(order: RequestDescriptors, control: socket.socket, proc: int) -> PluginProgram:
    with open(order.file, "rb") as file:  # noqa: PTH123
        asked: dict[str, Any] = json.loads(file.read())
    root: str = asked["root"]
    tree = namespaces.open_tree(root) if order.tree is None else order.tree
    namespaces.mount_plugin_files(
        tree=tree, root=root, trees=asked["trees"], tmp_bytes=asked["tmp_bytes"], etc=asked["etc"]
    )
    namespaces.enter_nobody_userns(proc)
    for number, descriptor in enumerate((order.stdin, order.stdout, order.stderr)):
        os.dup2(descriptor, number)
    control = _close_other_fds(control, order)
    environment = sandbox_init.confine(asked["orders"].encode("utf-8", "surrogateescape"))
    os.environb.clear()
    os.environb.update(environment)
    os.chdir(asked["directory"])
    namespaces.filter_system_calls(bytes.fromhex(asked["seccomp"]))
    control.send(b"ready")
    # The warden now limits what we may use and opens what we may reach.
    if control.recv(MAX_MESSAGE_BYTES) != b"go":
        os._exit(sandbox_init.EXIT_REFUSED)
    control.close()
    if order.artifacts_in is not None:
        sandbox_init.restore_artifact_fds()
    return PluginProgram(asked["script"], asked["arguments"])


def _close_other_fds(control: socket.socket, order: RequestDescriptors) -> socket.socket:
    """Close everything but the three streams, the pipes for big bytes, and this, which gets a new number."""
    # Out of the way of the numbers that are given out here.
    pipes = [
        fcntl.fcntl(pipe, fcntl.F_DUPFD, 16) for pipe in (order.artifacts_in, order.artifacts_out) if pipe is not None
    ]
    os.dup2(control.detach(), sandbox_init.GATE_FD, inheritable=False)
    kept = sandbox_init.park_artifact_fds(*pipes) if pipes else sandbox_init.GATE_FD
    os.closerange(kept + 1, _descriptors())
    return socket.socket(fileno=sandbox_init.GATE_FD)


def _descriptors() -> int:
    """No descriptor has this number or a higher one."""
    ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return ceiling if ceiling > 0 else 1 << 20


def reset_interpreter(program: PluginProgram) -> None:
    """Leave the interpreter as it would be if it had just been started for the script."""
    for name in [name for name in sys.modules if name.partition(".")[0] == HOST_PACKAGE]:
        del sys.modules[name]
    sys.orig_argv[1:] = [program.script, *program.arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(program.script))  # noqa: PTH120
    sys.argv = [program.script, *program.arguments]
    # From which moment log records count their milliseconds.
    logging._startTime = time.time()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


if __name__ == "__main__":
    wanted = main()
    reset_interpreter(wanted)
    # At the top of the stack: when the script is over the interpreter ends as it always does, with its exit handlers.
    sandbox_init.run_as_main(wanted.script)
