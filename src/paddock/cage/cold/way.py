"""The plain way to start a cage: bubblewrap builds it, and the program begins from nothing.

Bubblewrap is two processes: one outside, our child, which tells how the program ended; and one inside, the first of
the cage's own pid namespace, with which everything in the cage ends. Whoever ends a cage ends the inner one first: an
inner one whose outer has died while they were still building would wait for it for ever.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from paddock.cage.cold.pinning import Pinning
from paddock.cage.cold.staging import NOBODY, Stage, Stages
from paddock.cage.plan.bubblewrap import Fittings, OpenFile, SourceOf, arguments, command, zygote_arguments
from paddock.cage.process_tree import children
from paddock.cage.spec import Bind, CageSpec
from paddock.cage.walls.trampoline import GATE, INPUT, OUTPUT
from paddock.cage.ways import Order, Streams

# When memory runs out on the whole machine, plugins go before the daemon.
_OOM_SCORE = "500"
_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid


class ColdWay:
    """Starts cages with bubblewrap.

    Args:
        bubblewrap: Where the program is.
        fittings: What is the same in every cage.
        stages: Where trees are laid out for it when we are root; None when we are not.
    """

    def __init__(self, bubblewrap: str, fittings: Fittings, stages: Stages | None) -> None:
        self._bubblewrap = bubblewrap
        self._fittings = fittings
        self._stages = stages
        self._pinning = Pinning()

    def start(self, order: Order) -> ColdBody:
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
                return arguments(
                    order.spec,
                    source_of=source_of,
                    file=file,
                    fittings=self._fittings,
                    limits=order.resource_limits,
                )

            body = self._build(order.name, order.spec, options, command(order.spec), order.streams, inside, gate)
            undo.pop_all()
            return body

    def start_zygote(
        self, name: str, spec: CageSpec, files: Mapping[str, bytes], streams: Streams, link: socket.socket
    ) -> ColdBody:
        """Begin to build the outer cage of a warm interpreter, which gets `link` as descriptor 3.

        Raises:
            OSError: something the spec names is not there, or we ran out of something.
        """

        def options(source_of: SourceOf, file: OpenFile) -> list[str]:
            return zygote_arguments(spec, source_of=source_of, file=file, files=files)

        return self._build(name, spec, options, spec.command, streams, link, None)

    def _build(
        self,
        name: str,
        spec: CageSpec,
        options: Callable[[SourceOf, OpenFile], list[str]],
        program: Sequence[str],
        streams: Streams,
        inside: socket.socket,
        gate: socket.socket | None,
    ) -> ColdBody:
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as theirs:
            stage = None if self._stages is None else self._stages.open(name)
            if stage is not None:
                undo.callback(stage.close)

            files = _Files(theirs)
            with self._pinning.open(bind.source for bind in spec.binds) as pin:

                def source_of(bind: Bind) -> str:
                    if stage is not None:
                        return stage.source(bind, pin)
                    # Held by descriptor until bubblewrap has mounted it: a link may take the place's name meanwhile.
                    held = pin(bind.source).descriptor
                    files.keep(held)
                    return f"/proc/self/fd/{held}"

                # The command line is long: it goes through a file.
                listed = files.make(_listed(options(source_of, files.make)))
            status, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            undo.callback(os.close, status)
            files.keep(told)
            words = [self._bubblewrap, "--json-status-fd", str(told), "--args", str(listed), "--", *program]
            outer = os.fork()
            if outer == 0:
                # Both ends of the status: a bubblewrap that tells it to nobody would die of that, half-way.
                moves = _moves(streams, inside.fileno(), to_trampoline=gate is not None)
                _become(words, moves, [*files.made, status], as_nobody=stage is not None)
            # It ends by itself when we cannot go on: nothing passes the gate without us.
            undo.callback(os.waitpid, outer, 0)
            body = ColdBody(outer, gate, status, stage)
            undo.pop_all()
            return body


class ColdBody:
    """A cage that bubblewrap builds or has built; see `ways.Body`."""

    def __init__(self, outer: int, gate: socket.socket | None, status: int, stage: Stage | None) -> None:
        self._outer = outer
        self._outer_handle = os.pidfd_open(outer)
        self._inner_handle: int | None = None
        self._gate = gate
        self._status = status
        self._said = b""
        self._stage = stage
        self._ended: int | None = None
        self._orphans: list[int] = []
        self.first: int | None = None
        self.plugin: int | None = None

    def watched(self) -> list[int]:
        """See `ways.Body`."""
        if self._ended is not None:
            # Also when it is over by now: whoever was told to wait for it must hear of that.
            return [] if self._inner_handle is None else [self._inner_handle]
        handles = [self._outer_handle]
        if self.first is None:
            handles.append(self._status)
        if self._gate is not None and self.plugin is None:
            handles.append(self._gate.fileno())
        return handles

    def look(self) -> int | None:
        """See `ways.Body`."""
        self._look_at_status()
        self._look_at_gate()
        if self._ended is None:
            pid, status = os.waitpid(self._outer, os.WNOHANG)
            if pid != self._outer:
                return None
            self._ended = os.waitstatus_to_exitcode(status)
            self._kill_inner()
        # A cage's first process is done only after every other in it.
        if self._inner_handle is not None and not readable(self._inner_handle):
            return None
        self._reap_orphans()
        # Bubblewrap tells of a signal as a shell does.
        return 128 - self._ended if 128 < self._ended <= 128 + signal.SIGRTMAX else self._ended

    def go(self) -> None:
        """See `ways.Body`."""
        gate, self._gate = self._gate, None
        if gate is not None:
            with gate, contextlib.suppress(OSError):
                gate.send(b"G")
        self._close_stage()

    def kill(self) -> None:
        """See `ways.Body`."""
        self._look_at_status()
        if self._ended is None and self._inner_handle is None:
            # It may be about to make the inner one: held still first, so that we see whether it has.
            os.kill(self._outer, signal.SIGSTOP)
            os.waitid(os.P_PID, self._outer, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self._orphans = children(self._outer)
            for inner in self._orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(inner, signal.SIGKILL)
            os.kill(self._outer, signal.SIGKILL)
        # The outer one ends with the inner, and collects it.
        self._kill_inner()

    def close(self) -> None:
        """See `ways.Body`."""
        self._close_stage()
        if self._gate is not None:
            self._gate.close()
        for descriptor in (self._status, self._outer_handle, self._inner_handle):
            if descriptor is not None:
                os.close(descriptor)

    def _look_at_status(self) -> None:
        """Learn the inner process from the first line that bubblewrap writes."""
        if self.first is not None:
            return
        with contextlib.suppress(BlockingIOError):
            self._said += os.read(self._status, 4096)
        line, whole, _ = self._said.partition(b"\n")
        if whole:
            self.first = int(json.loads(line)["child-pid"])
            self._orphans = [self.first]
            with contextlib.suppress(OSError):
                self._inner_handle = os.pidfd_open(self.first)

    def _look_at_gate(self) -> None:
        """Learn the plugin's process: the kernel says who knocked, in our numbers and not in the cage's."""
        if self._gate is None or self.plugin is not None:
            return
        try:
            knock, ancillary, _, _ = self._gate.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return
        except OSError:
            knock, ancillary = b"", []
        if knock == b"R" and ancillary:
            self.plugin = _CREDENTIALS.unpack(ancillary[0][2])[0]
        else:
            # It ends by itself: nobody behind the gate goes on without an answer.
            self._gate.close()
            self._gate = None

    def _reap_orphans(self) -> None:
        """Collect an inner process whose outer one died first, and so could not; it is killed by now."""
        for orphan in self._orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)
        self._orphans = []

    def _kill_inner(self) -> None:
        if self._inner_handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner_handle, signal.SIGKILL)

    def _close_stage(self) -> None:
        """Bubblewrap has mounts of its own by now."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None


class _Files:
    """Descriptors that a child will inherit, closed here as soon as it has them."""

    def __init__(self, closing: contextlib.ExitStack) -> None:
        self.made: list[int] = []
        self._closing = closing

    def keep(self, descriptor: int) -> None:
        self.made.append(descriptor)
        self._closing.callback(os.close, descriptor)

    def make(self, content: bytes) -> int:
        """An anonymous file with this content, to be read from its start."""
        descriptor = os.memfd_create("paddock-cage", os.MFD_CLOEXEC)
        self.keep(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


def _listed(words: Sequence[str]) -> bytes:
    """Words as bubblewrap reads them from a file.

    Raises:
        ValueError: one contains what would end it, and so would be two.
    """
    if any("\0" in word for word in words):
        raise ValueError("a word of bubblewrap's command line contains a zero byte")
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _moves(streams: Streams, inside: int, *, to_trampoline: bool) -> dict[int, int]:
    """Which descriptor goes where. The warden keeps 0 to 5 free, so nothing that is still to be moved lies there."""
    if not to_trampoline:
        return {0: streams.stdin, 1: streams.stdout, 2: streams.stderr, GATE: inside}
    return {
        # Bubblewrap's own. A pipe, since Python notes about its streams when it starts whether they can be rewound.
        0: streams.stderr,
        1: streams.stderr,
        2: streams.stderr,
        GATE: inside,
        INPUT: streams.stdin,
        OUTPUT: streams.stdout,
    }


def _become(words: list[str], moves: Mapping[int, int], files: Sequence[int], *, as_nobody: bool) -> None:
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


def readable(descriptor: int) -> bool:
    """Whether something is to be read right now; of a process, whether it has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
