"""The zygote: a Python interpreter that waits in an outer cage and turns copies of itself into plugins.

It runs as a program inside that cage, with the few files of this package that it imports. One copy is always ready: in
namespaces of its own, but knowing nothing yet. The copy itself receives its request, so that no data of one plugin (its
secrets are in its environment) is ever in the memory that the next one is forked from.

A copy is two processes: the init of a new pid namespace, which waits for the end of everything in it, and the
plugin. An init ignores signals that it has no handler for; a plugin must not.

What this does not buy: copies of one zygote have the same memory layout and the same hash seed. A plugin
that exploits a bug in the interpreter itself knows those of its neighbours; it still has no way to reach them.

    zygote → warden    `spare` with descriptors (`SpareDescriptors`), for each copy · `failed WHY`, and it ends
    warden → copy      `order NAME…` with a descriptor for each name (`RequestDescriptors`)
    copy → warden      `ready`: it is fully confined · `failed WHY`
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

# The modules that plugins import most: preloaded, each costs its memory once and no plugin any time.
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
MAX_LOST_COPIES = 3  # copies in a row that end without a request


class SpareDescriptors(NamedTuple):
    """The descriptors that a new copy sends."""

    first: int  # pidfd of the cage's init; when it is gone, everything is
    plugin: int
    status: int  # a pipe that will hold how the plugin ended: a decimal number, as wait(2) has it
    control: int  # a SOCK_SEQPACKET socket to the plugin, until it runs


class RequestDescriptors(NamedTuple):
    """The descriptors of a launch request."""

    file: int  # the request's fields, as JSON
    stdin: int
    stdout: int
    stderr: int
    artifacts_in: int | None = None  # the plugin's artifact pipes, where it has them
    artifacts_out: int | None = None
    tree: int | None = None  # the plugin's files as a mount, where the warden can make one


class PluginProgram(NamedTuple):
    """The script to run once the copy is confined."""

    script: str
    arguments: list[str]


def main() -> PluginProgram:
    """Serve until the warden hangs up. Returns in the copies alone, confined as the plugin-to-be."""
    warden = socket.socket(fileno=int(sys.argv[1]))
    _preload()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # Exit statuses are not collected here: each copy reports to the warden.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    lost = 0
    while lost < MAX_LOST_COPIES:
        report_read, report_write = os.pipe()
        namespaces.unshare_child_pids()
        if os.fork() == 0:
            os.close(report_read)
            os.close(own_pids)
            return _run_copy(warden, report_write)
        namespaces.restore_child_pids(own_pids)
        os.close(report_write)
        # Without a byte the copy was killed, or something failed that may fail in the next ones too.
        lost = 0 if os.read(report_read, 1) else lost + 1
        os.close(report_read)
    os._exit(0)


def _preload() -> None:
    for name in PRELOADED_MODULES:
        # The SDK is there only where plugins would find it too.
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    gc.collect()
    # Loaded objects stay: a garbage collection in a copy then touches none of them, and the memory stays shared.
    gc.freeze()


def _run_copy(warden: socket.socket, report_write: int) -> PluginProgram:
    """Be the init process of a cage, and fork the plugin. Returns in the plugin's process alone."""
    control = warden
    try:
        namespaces.die_with_parent()
        namespaces.unshare_namespaces()
        os.setsid()
        proc = namespaces.mount_proc_and_devpts(sandbox_init.HIDDEN_PROC_FILES)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        status, status_write = os.pipe()
        plugin = os.fork()
        if plugin:
            os.dup2(status_write, 3)
            os.closerange(4, _descriptor_ceiling())
            _wait_for_plugin(plugin, 3)
        control, warden_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        spare = SpareDescriptors(os.pidfd_open(1), os.pidfd_open(os.getpid()), status, warden_end.detach())
        socket.send_fds(warden, [b"spare"], spare)
        for descriptor in (*spare, status_write, warden.detach()):
            os.close(descriptor)
        message, descriptors, _, _ = socket.recv_fds(
            control, MAX_MESSAGE_BYTES, len(RequestDescriptors._fields), socket.MSG_CMSG_CLOEXEC
        )
        if not descriptors:
            os._exit(0)
        os.write(report_write, b"t")
        named = dict(zip(message.decode().split()[1:], descriptors, strict=True))
        return _confine_self(RequestDescriptors(**named), control, proc)
    except BaseException as error:
        # Whatever happened, a copy must not go on as the zygote.
        with contextlib.suppress(OSError):
            control.send(f"failed {type(error).__name__}: {error}".encode()[:MAX_MESSAGE_BYTES])
        os._exit(sandbox_init.EXIT_REFUSED)


def _wait_for_plugin(plugin_pid: int, status_write: int) -> NoReturn:
    """Be init until the plugin ends, and report its status; whatever is left in the cage ends with us."""
    # An interrupt is for the plugin, not for its init.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    namespaces.drop_capabilities()
    while True:
        pid, status = os.wait()
        if pid == plugin_pid:
            # Where the pipe has no reader the warden is gone, and so are we.
            with contextlib.suppress(OSError):
                os.write(status_write, b"%d" % status)
            os._exit(0)


def _confine_self(descriptors: RequestDescriptors, control: socket.socket, proc: int) -> PluginProgram:
    with open(descriptors.file, "rb") as file:  # noqa: PTH123
        request: dict[str, Any] = json.loads(file.read())
    root: str = request["root"]
    tree = namespaces.open_tree(root) if descriptors.tree is None else descriptors.tree
    namespaces.mount_plugin_files(
        tree=tree, root=root, trees=request["trees"], tmp_bytes=request["tmp_bytes"], etc=request["etc"]
    )
    namespaces.enter_nobody_userns(proc, sandbox_init.INOTIFY_LIMITS)
    for number, descriptor in enumerate((descriptors.stdin, descriptors.stdout, descriptors.stderr)):
        os.dup2(descriptor, number)
    control = _close_other_fds(control, descriptors)
    environment = sandbox_init.confine(request["orders"].encode("utf-8", "surrogateescape"))
    os.environb.clear()
    os.environb.update(environment)
    os.chdir(request["directory"])
    namespaces.filter_system_calls(bytes.fromhex(request["seccomp"]))
    control.send(b"ready")
    # The warden now sets our limits and opens our network.
    if control.recv(MAX_MESSAGE_BYTES) != b"go":
        os._exit(sandbox_init.EXIT_REFUSED)
    control.close()
    if descriptors.artifacts_in is not None:
        sandbox_init.restore_artifact_fds()
    return PluginProgram(request["script"], request["arguments"])


def _close_other_fds(control: socket.socket, descriptors: RequestDescriptors) -> socket.socket:
    """Close everything but the three streams, the artifact pipes, and the control socket, which gets a new number."""
    # Out of the way of the numbers that are assigned here.
    pipes = [
        fcntl.fcntl(pipe, fcntl.F_DUPFD, 16)
        for pipe in (descriptors.artifacts_in, descriptors.artifacts_out)
        if pipe is not None
    ]
    os.dup2(control.detach(), sandbox_init.GATE_FD, inheritable=False)
    last_fd = sandbox_init.park_artifact_fds(*pipes) if pipes else sandbox_init.GATE_FD
    os.closerange(last_fd + 1, _descriptor_ceiling())
    return socket.socket(fileno=sandbox_init.GATE_FD)


def _descriptor_ceiling() -> int:
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
    # The origin of the relative times in log records.
    logging._startTime = time.time()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


if __name__ == "__main__":
    plugin_program = main()
    reset_interpreter(plugin_program)
    # At the top of the stack: when the script is over the interpreter ends as usual, with its exit handlers.
    sandbox_init.run_as_main(plugin_program.script)
