"""Cold start of a cage: prepares its mounts and files, forks, and executes bubblewrap, which builds it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from paddock.cage.bwrap.cage import BwrapCage
from paddock.cage.bwrap.mount_stage import MountStages
from paddock.cage.bwrap.pinned_path import PathPinner
from paddock.cage.confine.sandbox_init import ARTIFACTS_IN_FD, ARTIFACTS_OUT_FD, GATE_FD, STDIN_FD, STDOUT_FD
from paddock.cage.launch_request import LaunchRequest, PluginStreams
from paddock.cage.linux import create_memfd
from paddock.cage.plan.bwrap_arguments import (
    CageAssets,
    OpenFile,
    SourceOf,
    build_arguments,
    build_command,
    build_zygote_arguments,
)
from paddock.cage.spec import NOBODY, BindMount, CageSpec

# When the whole host runs out of memory, plugins are killed before the daemon.
_OOM_SCORE = "500"


class BwrapLauncher:
    """Starts cages with bubblewrap.

    Args:
        bubblewrap: Path of the program.
        assets: Files that are the same in every cage.
        stages: Where mounts are prepared when we are root; None when we are not.
    """

    def __init__(self, bubblewrap: str, assets: CageAssets, stages: MountStages | None) -> None:
        self._bubblewrap = bubblewrap
        self._assets = assets
        self._stages = stages
        self._path_pinner = PathPinner()

    def start(self, request: LaunchRequest) -> BwrapCage:
        """Begin to build a cage.

        Raises:
            OSError: Something the spec names does not exist, or the host is out of a resource.
        """
        gate, cage_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with cage_end, contextlib.ExitStack() as undo:
            undo.callback(gate.close)
            gate.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            gate.setblocking(False)

            def options(source_of: SourceOf, file: OpenFile) -> list[str]:
                return build_arguments(
                    request.spec,
                    source_of=source_of,
                    file=file,
                    assets=self._assets,
                    limits=request.resource_limits,
                )

            cage = self._build(
                request.name, request.spec, options, build_command(request.spec), request.streams, cage_end, gate
            )
            undo.pop_all()
            return cage

    def start_zygote(
        self, name: str, spec: CageSpec, files: Mapping[str, bytes], streams: PluginStreams, link: socket.socket
    ) -> BwrapCage:
        """Begin to build the outer cage of a zygote, which gets `link` as descriptor 3.

        Raises:
            OSError: Something the spec names does not exist, or the host is out of a resource.
        """

        def options(source_of: SourceOf, file: OpenFile) -> list[str]:
            return build_zygote_arguments(spec, source_of=source_of, file=file, files=files)

        return self._build(name, spec, options, spec.command, streams, link, None)

    def _build(
        self,
        name: str,
        spec: CageSpec,
        options: Callable[[SourceOf, OpenFile], list[str]],
        program: Sequence[str],
        streams: PluginStreams,
        cage_end: socket.socket,
        gate: socket.socket | None,
    ) -> BwrapCage:
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as child_files:
            stage = None if self._stages is None else self._stages.open(name)
            if stage is not None:
                undo.callback(stage.close)

            files = _InheritedFiles(child_files)
            with self._path_pinner.open(bind.source for bind in spec.binds) as pin:

                def source_of(bind: BindMount) -> str:
                    if stage is not None:
                        return stage.mount_source(bind, pin)
                    # Held by descriptor until bubblewrap has mounted it: the path may become a symlink meanwhile.
                    descriptor = pin(bind.source).descriptor
                    files.add(descriptor)
                    return f"/proc/self/fd/{descriptor}"

                # The command line is long, so it goes through a file.
                arguments_fd = files.create(_nul_separated(options(source_of, files.create)))
            status_fd, status_write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            undo.callback(os.close, status_fd)
            files.add(status_write_fd)
            argv = [
                self._bubblewrap,
                "--json-status-fd",
                str(status_write_fd),
                "--args",
                str(arguments_fd),
                "--",
                *program,
            ]
            outer_pid = os.fork()
            if outer_pid == 0:
                # Pass both ends of the status pipe: bubblewrap would die of SIGPIPE, half-way, if nothing could read
                # it.
                moves = _fd_moves(streams, cage_end.fileno(), with_sandbox_init=gate is not None)
                _exec_bwrap(argv, moves, [*files.descriptors, status_fd], as_nobody=stage is not None)
            # The child ends by itself when we cannot go on: nothing passes the gate without us.
            undo.callback(os.waitpid, outer_pid, 0)
            cage = BwrapCage(outer_pid, gate, status_fd, stage)
            undo.pop_all()
            return cage


class _InheritedFiles:
    """Descriptors that a child inherits. They are closed here as soon as the child has them."""

    def __init__(self, exit_stack: contextlib.ExitStack) -> None:
        self.descriptors: list[int] = []
        self._exit_stack = exit_stack

    def add(self, descriptor: int) -> None:
        self.descriptors.append(descriptor)
        self._exit_stack.callback(os.close, descriptor)

    def create(self, content: bytes) -> int:
        """Create a file with this content, for the child to read."""
        descriptor = create_memfd(content)
        self.add(descriptor)
        return descriptor


def _nul_separated(arguments: Sequence[str]) -> bytes:
    """Encode arguments as bubblewrap reads them from a file.

    Raises:
        ValueError: An argument contains a NUL, and would become two.
    """
    if any("\0" in argument for argument in arguments):
        raise ValueError("a word of bubblewrap's command line contains a zero byte")
    return b"".join(os.fsencode(argument) + b"\0" for argument in arguments)


def _fd_moves(streams: PluginStreams, gate_end: int, *, with_sandbox_init: bool) -> dict[int, int]:
    """Map target descriptor to source descriptor. The warden keeps 0 to 7 free, so no source lies among the targets."""
    if not with_sandbox_init:
        return {0: streams.stdin, 1: streams.stdout, 2: streams.stderr, GATE_FD: gate_end}
    return {
        # For bubblewrap itself. It has to be a pipe: Python checks at start whether its streams are seekable.
        0: streams.stderr,
        1: streams.stderr,
        2: streams.stderr,
        GATE_FD: gate_end,
        STDIN_FD: streams.stdin,
        STDOUT_FD: streams.stdout,
        **dict(zip((ARTIFACTS_IN_FD, ARTIFACTS_OUT_FD), streams.artifacts or (), strict=False)),
    }


def _exec_bwrap(argv: list[str], moves: Mapping[int, int], files: Sequence[int], *, as_nobody: bool) -> None:
    """Run in the forked child: move descriptors to their numbers and execute bubblewrap. Never returns."""
    try:
        for number, descriptor in moves.items():
            os.dup2(descriptor, number)
        for descriptor in files:
            os.set_inheritable(descriptor, True)
        # Python changed these for itself, and an executed program would inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
        if as_nobody:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        # Not yet PR_SET_PDEATHSIG: bubblewrap asks for that itself, when the inner process no longer needs the outer
        # one. Until then the gate is enough: nothing passes it when the warden is gone, and then both end.
        os.chdir("/")
        os.execve(argv[0], argv, {})  # noqa: S606 - bubblewrap, with arguments made from a spec
    except BaseException as error:
        reason = errno.errorcode.get(error.errno or 0, "") if isinstance(error, OSError) else repr(error)
        os.write(2, f"bwrap: could not be started: {reason}\n".encode())
    finally:
        os._exit(125)
