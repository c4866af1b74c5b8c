"""The plain way to start a cage: lay out what it will see, and turn a child into bubblewrap, which builds it."""

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
from paddock.cage.launch_strategy import LaunchRequest, PluginStreams
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

# When memory runs out on the whole machine, plugins go before the daemon.
_OOM_SCORE = "500"


class BwrapLauncher:
    """Starts cages with bubblewrap.

    Args:
        bubblewrap: Where the program is.
        fittings: What is the same in every cage.
        stages: Where trees are laid out for it when we are root; None when we are not.
    """

    def __init__(self, bubblewrap: str, fittings: CageAssets, stages: MountStages | None) -> None:
        self._bubblewrap = bubblewrap
        self._fittings = fittings
        self._stages = stages
        self._pinning = PathPinner()

    def start(self, order: LaunchRequest) -> BwrapCage:
        """Begin to build a cage.

        Raises:
            OSError: something the spec names is not there, or we ran out of something.
        """
        gate, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inside, contextlib.ExitStack() as undo:
            undo.callback(gate.close)
            gate.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            gate.setblocking(False)

            def options(source_of: SourceOf, file: OpenFile) -> list[str]:
                return build_arguments(
                    order.spec,
                    source_of=source_of,
                    file=file,
                    fittings=self._fittings,
                    limits=order.resource_limits,
                )

            body = self._build(order.name, order.spec, options, build_command(order.spec), order.streams, inside, gate)
            undo.pop_all()
            return body

    def start_zygote(
        self, name: str, spec: CageSpec, files: Mapping[str, bytes], streams: PluginStreams, link: socket.socket
    ) -> BwrapCage:
        """Begin to build the outer cage of a warm interpreter, which gets `link` as descriptor 3.

        Raises:
            OSError: something the spec names is not there, or we ran out of something.
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
        inside: socket.socket,
        gate: socket.socket | None,
    ) -> BwrapCage:
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as theirs:
            stage = None if self._stages is None else self._stages.open(name)
            if stage is not None:
                undo.callback(stage.close)

            files = _InheritedFiles(theirs)
            with self._pinning.open(bind.source for bind in spec.binds) as pin:

                def source_of(bind: BindMount) -> str:
                    if stage is not None:
                        return stage.mount_source(bind, pin)
                    # Held by descriptor until bubblewrap has mounted it: a link may take the place's name meanwhile.
                    held = pin(bind.source).descriptor
                    files.keep(held)
                    return f"/proc/self/fd/{held}"

                # The command line is long: it goes through a file.
                listed = files.make(_nul_separated(options(source_of, files.make)))
            status, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            undo.callback(os.close, status)
            files.keep(told)
            words = [self._bubblewrap, "--json-status-fd", str(told), "--args", str(listed), "--", *program]
            outer = os.fork()
            if outer == 0:
                # Both ends of the status: a bubblewrap that tells it to nobody would die of that, half-way.
                moves = _fd_moves(streams, inside.fileno(), to_trampoline=gate is not None)
                _exec_bwrap(words, moves, [*files.made, status], as_nobody=stage is not None)
            # It ends by itself when we cannot go on: nothing passes the gate without us.
            undo.callback(os.waitpid, outer, 0)
            body = BwrapCage(outer, gate, status, stage)
            undo.pop_all()
            return body


class _InheritedFiles:
    """Descriptors that a child will inherit, closed here as soon as it has them."""

    def __init__(self, closing: contextlib.ExitStack) -> None:
        self.made: list[int] = []
        self._closing = closing

    def keep(self, descriptor: int) -> None:
        self.made.append(descriptor)
        self._closing.callback(os.close, descriptor)

    def make(self, content: bytes) -> int:
        """A file with this content, for the child to read."""
        descriptor = create_memfd(content)
        self.keep(descriptor)
        return descriptor


def _nul_separated(words: Sequence[str]) -> bytes:
    """Words as bubblewrap reads them from a file.

    Raises:
        ValueError: one contains what would end it, and so would be two.
    """
    if any("\0" in word for word in words):
        raise ValueError("a word of bubblewrap's command line contains a zero byte")
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _fd_moves(streams: PluginStreams, inside: int, *, to_trampoline: bool) -> dict[int, int]:
    """Which descriptor goes where. The warden keeps 0 to 7 free, so nothing that is still to be moved lies there."""
    if not to_trampoline:
        return {0: streams.stdin, 1: streams.stdout, 2: streams.stderr, GATE_FD: inside}
    return {
        # Bubblewrap's own. A pipe, since Python notes about its streams when it starts whether they can be rewound.
        0: streams.stderr,
        1: streams.stderr,
        2: streams.stderr,
        GATE_FD: inside,
        STDIN_FD: streams.stdin,
        STDOUT_FD: streams.stdout,
        **dict(zip((ARTIFACTS_IN_FD, ARTIFACTS_OUT_FD), streams.artifacts or (), strict=False)),
    }


def _exec_bwrap(words: list[str], moves: Mapping[int, int], files: Sequence[int], *, as_nobody: bool) -> None:
    """What the forked child does: put everything in its place and turn into bubblewrap. Never returns."""
    try:
        for number, descriptor in moves.items():
            os.dup2(descriptor, number)
        for descriptor in files:
            os.set_inheritable(descriptor, True)
        # Python changed these for itself, and a program would inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
        if as_nobody:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        # Not yet to die with the warden: bubblewrap asks for that itself, when the inner process no longer needs it.
        # Until then the gate is enough: nothing passes it when the warden is gone, and then both end.
        os.chdir("/")
        os.execve(words[0], words, {})  # noqa: S606 - bubblewrap, with arguments made from a spec
    except BaseException as error:
        reason = errno.errorcode.get(error.errno or 0, "") if isinstance(error, OSError) else repr(error)
        os.write(2, f"bwrap: could not be started: {reason}\n".encode())
    finally:
        os._exit(125)
