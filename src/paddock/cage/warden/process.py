"""The warden: a program of its own, with one thread, that starts, watches, ends and reaps every cage.

It is apart from the daemon because entering a namespace takes a process with one thread, because a child dies with the
*thread* that started it, and because somebody must be left to clear away when the daemon is killed: the warden then
reads the end of its socket, ends every cage and goes.

    python -I -S process.py SOCKET BUBBLEWRAP [TREES]
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import socket
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    # Isolated, Python knows of no package but its own; ours is found from this file.
    sys.path.insert(0, str(Path(__file__).parents[3]))

from paddock.cage.cold.staging import UNFIT, Stages
from paddock.cage.cold.way import ColdWay
from paddock.cage.descriptors import HOW_TO_HAVE_MORE, NONE_FREE
from paddock.cage.kernel import adopt_orphans, real_root
from paddock.cage.limits import watchdog
from paddock.cage.limits.groups import Groups
from paddock.cage.limits.places import kernel_view, mechanisms, places
from paddock.cage.plan.bubblewrap import fittings
from paddock.cage.spec import CageSpec
from paddock.cage.walls import trampoline
from paddock.cage.warden import messages
from paddock.cage.warden.caged import Caged, Refusal, begin
from paddock.cage.warden.leftovers import end_abandoned
from paddock.cage.warden.messages import (
    DescriptorsLost,
    Ended,
    Hello,
    Kill,
    Launch,
    Listeners,
    Refused,
    Signal,
    Started,
    Unfit,
)
from paddock.cage.warm.nursery import Nursery
from paddock.cage.ways import Streams

CONTROL = 3  # where the socket to the daemon lies; a cage's child puts its gate over it
LAUNCH_SECONDS = 20.0
CLEARING_SECONDS = 2.0
_ZYGOTES = -1  # among the numbers of cages
_LATE_HINT = "look whether the machine is very busy or a granted place hangs (ls), and try again"
_UNFIT_HINT = "run Paddock as an ordinary user, or give its container CAP_SYS_ADMIN and a writable /run"


class Warden:
    """The loop, and all cages that are alive.

    Args:
        control: The socket to the daemon.
        way: How cages are started.
    """

    def __init__(self, control: socket.socket, way: Nursery) -> None:
        self._control = control
        self._way = way
        self._cages: dict[int, Caged] = {}
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, set[int]] = {}
        self._next_watch = 0.0

    def run(self, parent: int) -> None:
        """Serve until the daemon is gone, then end every cage.

        Args:
            parent: A handle of the daemon's process, in case a copy of its socket outlives it.
        """
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(parent, selectors.EVENT_READ)
        serving = True
        while serving:
            for key, _ in self._selector.select(self._patience()):
                if key.fd == parent:
                    serving = False
                elif key.fileobj is self._control:
                    serving = self._serve() and serving
                elif key.data == _ZYGOTES:
                    self._look_at_zygotes()
                elif key.data in self._cages:
                    self._look_safely(self._cages[key.data])
            self._keep_time()
        self._clear()

    def _serve(self) -> bool:
        """Take one message; False when the daemon is gone."""
        try:
            received = messages.receive(self._control)
        except DescriptorsLost as error:
            if isinstance(error.lost, Launch):
                self._tell(_no_descriptors(error.lost.number))
            return True
        if received is None:
            return False
        message, descriptors = received
        if isinstance(message, Launch):
            self._launch(message.number, descriptors)
        elif isinstance(message, Kill) and message.number in self._cages:
            self._cages[message.number].kill("killed")
        elif isinstance(message, Signal) and message.number in self._cages:
            self._cages[message.number].signal(message.signal)
        return True

    def _launch(self, number: int, descriptors: list[int]) -> None:
        *streams, file = descriptors
        try:
            spec = CageSpec.from_wire(messages.from_file(file))
            cage = begin(number, spec, _as_streams(*streams), self._way)
        except Refusal as refusal:
            self._tell(Refused(number, refusal.code, str(refusal), refusal.hint))
            return
        finally:
            for descriptor in streams:
                os.close(descriptor)
        cage.deadline = time.monotonic() + LAUNCH_SECONDS
        self._cages[number] = cage
        self._watch(number, cage.body.watched())
        # It may be the one for which a zygote is now being started.
        self._watch(_ZYGOTES, self._way.watched())

    def _look_safely(self, cage: Caged) -> None:
        """A cage that we do not understand costs its own plugin the life, not the others theirs."""
        try:
            self._look(cage)
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            with contextlib.suppress(Exception):
                cage.kill("fault")
            self._end(cage, -signal.SIGKILL)

    def _look(self, cage: Caged) -> None:
        """Something happened to a cage: find out what, and move it on."""
        ended = cage.look()
        if ended is not None:
            self._end(cage, ended)
            return
        if cage.waits_for_go:
            self._open_gate(cage)
        self._watch(cage.number, cage.body.watched())

    def _look_at_zygotes(self) -> None:
        """Zygotes that we do not understand cost those that came from them the life, not all others theirs."""
        try:
            self._way.look()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            self._way.close()
        self._watch(_ZYGOTES, self._way.watched())

    def _open_gate(self, cage: Caged) -> None:
        try:
            listeners = cage.prepare()
        except Refusal as refusal:
            cage.refuse(refusal)
            return
        descriptors = [listener.fileno() for listener in listeners]
        most = messages.MOST_DESCRIPTORS
        for begun in range(0, len(descriptors), most):
            self._tell(Listeners(cage.number), descriptors[begun : begun + most])
        for listener in listeners:
            listener.close()
        pid = cage.go()
        self._tell(Started(cage.number, pid))

    def _end(self, cage: Caged, ended: int) -> None:
        del self._cages[cage.number]
        for descriptor in self._watched.pop(cage.number, set()):
            self._selector.unregister(descriptor)
        cage.close()
        if cage.started:
            code, by = (ended, None) if ended >= 0 else (None, -ended)
            self._tell(Ended(cage.number, code, by, cage.cause_of(by)))
        elif cage.refusal is not None:
            self._tell_refusal(cage, cage.refusal)
        else:
            self._tell(Refused(cage.number, "cage.bwrap_failed", f"it ended with {ended}", setup=True))

    def _watch(self, number: int, descriptors: list[int]) -> None:
        """Hear of whatever a cage, or the zygotes, now want to be looked at for."""
        wanted, had = set(descriptors), self._watched.get(number, set())
        for descriptor in had - wanted:
            self._selector.unregister(descriptor)
        for descriptor in wanted - had:
            self._selector.register(descriptor, selectors.EVENT_READ, number)
        self._watched[number] = wanted

    def _patience(self) -> float | None:
        """How long nothing needs to be done; None is for ever."""
        times = [cage.deadline for cage in self._cages.values() if cage.deadline is not None]
        if any(cage.needs_watching for cage in self._cages.values()):
            times.append(self._next_watch)
        if self._way.deadline is not None:
            times.append(self._way.deadline)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _keep_time(self) -> None:
        now = time.monotonic()
        for cage in self._cages.values():
            if cage.deadline is not None and cage.deadline <= now:
                self._late(cage, now)
        if self._way.deadline is not None and self._way.deadline <= now:
            self._look_at_zygotes()
        if self._next_watch <= now:
            self._next_watch = now + watchdog.EVERY_SECONDS
            for cage in self._cages.values():
                if cage.needs_watching:
                    cage.watch_memory()

    def _late(self, cage: Caged, now: float) -> None:
        """End a cage that does not get ready; and say so even if it does not end, as on a file system that hangs."""
        if cage.refusal is None:
            late = f"it was not ready within {LAUNCH_SECONDS:g} s"
            cage.refuse(Refusal(late, code="cage.launch_timeout", hint=_LATE_HINT))
            cage.deadline = now + CLEARING_SECONDS
        else:
            self._tell_refusal(cage, cage.refusal)
            cage.deadline = None

    def _tell_refusal(self, cage: Caged, refusal: Refusal) -> None:
        if not cage.refusal_told:
            cage.refusal_told = True
            self._tell(Refused(cage.number, refusal.code, str(refusal), refusal.hint))

    def _clear(self) -> None:
        """End everything, wait a moment for it to be gone, and leave no group behind."""
        for cage in self._cages.values():
            cage.kill("killed")
        self._way.close()
        deadline = time.monotonic() + CLEARING_SECONDS
        self._watch(_ZYGOTES, self._way.watched())
        while (self._cages or self._way.watched()) and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                if key.data == _ZYGOTES:
                    self._look_at_zygotes()
                elif key.data in self._cages:
                    self._look_safely(self._cages[key.data])
                elif key.data is None:
                    self._selector.unregister(key.fileobj)
        for cage in self._cages.values():
            cage.close()

    def _tell(self, message: messages.Message, descriptors: list[int] | None = None) -> None:
        # A daemon that is gone cannot be told; the end of its socket is seen in the loop.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            messages.send(self._control, message, descriptors or ())


def _as_streams(stdin: int, stdout: int, stderr: int, *artifacts: int) -> Streams:
    return Streams(stdin, stdout, stderr, (artifacts[0], artifacts[1]) if artifacts else None)


def _no_descriptors(number: int) -> Refused:
    return Refused(number, NONE_FREE, "the warden has no free descriptor", HOW_TO_HAVE_MORE)


def _control(number: int) -> socket.socket:
    """The socket to the daemon, moved to where we want it and closed for everything that we start."""
    if number != CONTROL:
        os.dup2(number, CONTROL, inheritable=False)
        os.close(number)
    os.set_inheritable(CONTROL, False)
    # The next numbers are a plugin's pipes on its way into a cage: nothing of ours may ever lie there.
    pipes = (trampoline.INPUT, trampoline.OUTPUT, trampoline.ARTIFACTS_IN, trampoline.ARTIFACTS_OUT)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in pipes:
        if number != nothing:
            os.dup2(nothing, number, inheritable=False)
    if nothing not in pipes:
        os.close(nothing)
    return socket.socket(fileno=CONTROL)


def _all_descriptors() -> None:
    """Each cage takes a few; a soft limit of 1024 would be the end at some hundred."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Be the warden."""
    control = _control(int(sys.argv[1]))
    parent = os.pidfd_open(os.getppid())
    # A terminal's Ctrl-C is for the daemon, which then ends us in order; a plain kill leaves nothing behind either.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: control.shutdown(socket.SHUT_RD))
    adopt_orphans()
    _all_descriptors()
    daemon_and_we = (os.getppid(), os.getpid())
    groups = Groups(places(kernel_view(lambda: daemon_and_we)), daemon_and_we)
    try:
        stages = Stages() if real_root() else None
    except OSError as error:
        messages.send(control, Unfit(UNFIT, f"nowhere can a root daemon lay out its cages: {error}", _UNFIT_HINT))
        return
    fitted = fittings()
    cold = ColdWay(sys.argv[2], fitted, stages)
    trees = next(iter(sys.argv[3:]), None)
    way = Nursery(cold, groups, fitted.seccomp, trees=trees, as_mount=stages is not None)
    messages.send(control, Hello(mechanisms(groups.places)))
    groups.sweep()
    end_abandoned()
    try:
        Warden(control, way).run(parent)
    finally:
        if stages is not None:
            stages.close()


if __name__ == "__main__":
    main()
