"""The warden: a separate program, with one thread, that starts, watches, ends and reaps every cage.

It is separate from the daemon because entering a namespace takes a process with one thread, because a child dies with
the
*thread* that started it, and because something must clean up when the daemon is killed: the warden then
reads the end of its socket, kills every cage and exits.

    python -I -S server.py SOCKET BUBBLEWRAP [TREES]
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
    # In isolated mode Python finds no package but its own; ours is found from this file.
    sys.path.insert(0, str(Path(__file__).parents[3]))

from paddock.cage.bwrap.launcher import BwrapLauncher
from paddock.cage.bwrap.mount_stage import STAGING_FAILED_CODE, MountStages
from paddock.cage.cgroups import fallback_limits
from paddock.cage.cgroups.cgroup import WardenCgroups
from paddock.cage.cgroups.discovery import describe_mechanisms, find_locations, read_cgroup_view
from paddock.cage.confine import sandbox_init
from paddock.cage.launch_request import PluginStreams
from paddock.cage.linux import (
    NO_DESCRIPTORS_CODE,
    RAISE_NOFILE_HINT,
    become_subreaper,
    is_host_root,
    leave_session_keyring,
)
from paddock.cage.plan.bwrap_arguments import load_cage_assets
from paddock.cage.spec import CageSpec
from paddock.cage.warden import messages
from paddock.cage.warden.cleanup import kill_abandoned
from paddock.cage.warden.messages import (
    CageEnded,
    CageListeners,
    CageObserved,
    CageRefused,
    CageStarted,
    DescriptorsLost,
    KillCage,
    LaunchCage,
    SignalPlugin,
    WardenReady,
    WardenUnfit,
)
from paddock.cage.warden.record import CageRecord, CageRefusal, start_cage
from paddock.cage.zygote.pool import ZygotePool

CONTROL_FD = 3  # the descriptor of the socket to the daemon; a cage's child puts its gate over it
SETUP_TIMEOUT_S = 20.0
CLEANUP_TIMEOUT_S = 2.0
CGROUP_RETRY_S = 0.25  # until the kernel sees that the cgroup of an ended cage is empty
_ZYGOTES_ID = -1  # among the numbers of cages
_LATE_HINT = "look whether the machine is very busy or a granted place hangs (ls), and try again"
_UNFIT_HINT = "run Paddock as an ordinary user, or give its container CAP_SYS_ADMIN and a writable /run"


class WardenServer:
    """The event loop, and all living cages.

    Args:
        control: The socket to the daemon.
        strategy: How cages are started.
        cgroups: The cgroups that it creates for them.
    """

    def __init__(self, control: socket.socket, strategy: ZygotePool, cgroups: WardenCgroups) -> None:
        self._control = control
        self._strategy = strategy
        self._cgroups = cgroups
        self._cages: dict[int, CageRecord] = {}
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, set[int]] = {}
        self._next_memory_check = 0.0
        self._next_cgroup_removal: float | None = None  # None if every ended cage's cgroup is gone

    def run(self, parent: int) -> None:
        """Serve until the daemon is gone, then kill every cage.

        Args:
            parent: A pidfd of the daemon, in case a copy of its socket outlives it.
        """
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(parent, selectors.EVENT_READ)
        serving = True
        while serving:
            for key, _ in self._selector.select(self._next_timeout()):
                if key.fd == parent:
                    serving = False
                elif key.fileobj is self._control:
                    serving = self._handle_message() and serving
                elif key.data == _ZYGOTES_ID:
                    self._poll_zygotes()
                elif key.data in self._cages:
                    self._poll_safely(self._cages[key.data])
            self._check_deadlines()
        self._end_all()

    def _handle_message(self) -> bool:
        """Handle one message; False when the daemon is gone."""
        try:
            received = messages.receive(self._control)
        except DescriptorsLost as error:
            if isinstance(error.lost, LaunchCage):
                self._send(_no_descriptors_refusal(error.lost.number))
            return True
        if received is None:
            return False
        message, descriptors = received
        if isinstance(message, LaunchCage):
            self._launch(message.number, descriptors)
        elif isinstance(message, KillCage) and message.number in self._cages:
            self._cages[message.number].kill("killed")
        elif isinstance(message, SignalPlugin) and message.number in self._cages:
            self._cages[message.number].signal(message.signal)
        return True

    def _launch(self, number: int, descriptors: list[int]) -> None:
        *streams, file = descriptors
        try:
            spec = CageSpec.from_json(messages.read_json_file(file))
            cage = start_cage(number, spec, _to_streams(*streams), self._strategy)
        except CageRefusal as refusal:
            self._send(CageRefused(number, refusal.code, str(refusal), refusal.hint))
            return
        finally:
            for descriptor in streams:
                os.close(descriptor)
        cage.deadline = time.monotonic() + SETUP_TIMEOUT_S
        self._cages[number] = cage
        self._watch(number, cage.handle.watched_fds())
        # This launch may have started a zygote.
        self._watch(_ZYGOTES_ID, self._strategy.watched_fds())

    def _poll_safely(self, cage: CageRecord) -> None:
        """Poll a cage. An unexpected error kills that plugin, and no other."""
        try:
            self._poll_cage(cage)
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            with contextlib.suppress(Exception):
                cage.kill("fault")
            self._end(cage, -signal.SIGKILL)

    def _poll_cage(self, cage: CageRecord) -> None:
        """Poll a cage and move it on."""
        exit_code = cage.poll()
        if exit_code is not None:
            self._end(cage, exit_code)
            return
        if cage.awaits_release:
            self._open_gate(cage)
        self._watch(cage.number, cage.handle.watched_fds())

    def _poll_zygotes(self) -> None:
        """Poll the zygotes. An unexpected error kills their plugins, and no others."""
        try:
            self._strategy.poll()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            self._strategy.close()
        self._watch(_ZYGOTES_ID, self._strategy.watched_fds())

    def _open_gate(self, cage: CageRecord) -> None:
        try:
            listeners = cage.prepare_outside()
        except CageRefusal as refusal:
            cage.refuse(refusal)
            return
        descriptors = [listener.fileno() for listener in listeners]
        batch = messages.MAX_DESCRIPTORS
        for start in range(0, len(descriptors), batch):
            self._send(CageListeners(cage.number), descriptors[start : start + batch])
        for listener in listeners:
            listener.close()
        observed = cage.take_listener()
        if observed is not None:
            self._send(CageObserved(cage.number), [observed])
            os.close(observed)
        pid = cage.release()
        self._send(CageStarted(cage.number, pid))

    def _end(self, cage: CageRecord, exit_code: int) -> None:
        del self._cages[cage.number]
        for descriptor in self._watched.pop(cage.number, set()):
            self._selector.unregister(descriptor)
        cage.close()
        if cage.started:
            code, signal_number = (exit_code, None) if exit_code >= 0 else (None, -exit_code)
            self._send(CageEnded(cage.number, code, signal_number, cage.cause_of(signal_number)))
        elif cage.refusal is not None:
            self._send_refusal(cage, cage.refusal)
        else:
            self._send(CageRefused(cage.number, "cage.bwrap_failed", f"it ended with {exit_code}", setup=True))

    def _watch(self, number: int, descriptors: list[int]) -> None:
        """Update the watched descriptors of a cage, or of the zygotes."""
        wanted, watched = set(descriptors), self._watched.get(number, set())
        for descriptor in watched - wanted:
            self._selector.unregister(descriptor)
        for descriptor in wanted - watched:
            self._selector.register(descriptor, selectors.EVENT_READ, number)
        self._watched[number] = wanted

    def _next_timeout(self) -> float | None:
        """How long nothing needs to be done; None is forever."""
        times = [cage.deadline for cage in self._cages.values() if cage.deadline is not None]
        if any(cage.needs_memory_watch for cage in self._cages.values()):
            times.append(self._next_memory_check)
        times += [at for at in (self._strategy.deadline, self._next_cgroup_removal) if at is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        for cage in self._cages.values():
            if cage.deadline is not None and cage.deadline <= now:
                self._end_late_cage(cage, now)
        if self._strategy.deadline is not None and self._strategy.deadline <= now:
            self._poll_zygotes()
        self._next_cgroup_removal = None if self._cgroups.remove_discarded() else now + CGROUP_RETRY_S
        if self._next_memory_check <= now:
            self._next_memory_check = now + fallback_limits.MEMORY_CHECK_INTERVAL_S
            for cage in self._cages.values():
                if cage.needs_memory_watch:
                    cage.watch_memory()

    def _end_late_cage(self, cage: CageRecord, now: float) -> None:
        """Kill a cage that does not get ready; report it even if it does not end, as on a blocked file system."""
        if cage.refusal is None:
            message = f"it was not ready within {SETUP_TIMEOUT_S:g} s"
            cage.refuse(CageRefusal(message, code="cage.launch_timeout", hint=_LATE_HINT))
            cage.deadline = now + CLEANUP_TIMEOUT_S
        else:
            self._send_refusal(cage, cage.refusal)
            cage.deadline = None

    def _send_refusal(self, cage: CageRecord, refusal: CageRefusal) -> None:
        if not cage.refusal_sent:
            cage.refusal_sent = True
            self._send(CageRefused(cage.number, refusal.code, str(refusal), refusal.hint))

    def _end_all(self) -> None:
        """Kill everything, wait a moment for it to be gone, and leave no cgroup behind."""
        for cage in self._cages.values():
            cage.kill("killed")
        self._strategy.close()
        deadline = time.monotonic() + CLEANUP_TIMEOUT_S
        self._watch(_ZYGOTES_ID, self._strategy.watched_fds())
        while (self._cages or self._strategy.watched_fds()) and (remaining := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(remaining):
                if key.data == _ZYGOTES_ID:
                    self._poll_zygotes()
                elif key.data in self._cages:
                    self._poll_safely(self._cages[key.data])
                elif key.data is None:
                    self._selector.unregister(key.fileobj)
        for cage in self._cages.values():
            cage.close()
        while not self._cgroups.remove_discarded() and time.monotonic() < deadline:
            time.sleep(0.01)

    def _send(self, message: messages.WardenMessage, descriptors: list[int] | None = None) -> None:
        # A daemon that is gone cannot be told; the loop sees the end of its socket.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            messages.send(self._control, message, descriptors or ())


def _to_streams(stdin: int, stdout: int, stderr: int, *artifacts: int) -> PluginStreams:
    return PluginStreams(stdin, stdout, stderr, (artifacts[0], artifacts[1]) if artifacts else None)


def _no_descriptors_refusal(number: int) -> CageRefused:
    return CageRefused(number, NO_DESCRIPTORS_CODE, "the warden has no free descriptor", RAISE_NOFILE_HINT)


def _take_control_socket(number: int) -> socket.socket:
    """Move the socket to the daemon to its number, and make it close-on-exec."""
    if number != CONTROL_FD:
        os.dup2(number, CONTROL_FD, inheritable=False)
        os.close(number)
    os.set_inheritable(CONTROL_FD, False)
    # The next numbers are a plugin's pipes on their way into a cage: nothing of ours may be open there.
    pipes = (sandbox_init.STDIN_FD, sandbox_init.STDOUT_FD, sandbox_init.ARTIFACTS_IN_FD, sandbox_init.ARTIFACTS_OUT_FD)
    devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in pipes:
        if number != devnull:
            os.dup2(devnull, number, inheritable=False)
    if devnull not in pipes:
        os.close(devnull)
    return socket.socket(fileno=CONTROL_FD)


def _raise_descriptor_limit() -> None:
    """Raise the soft limit: each cage takes a few descriptors, and 1024 would last for some hundred cages."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def main() -> None:
    """Run the warden."""
    control = _take_control_socket(int(sys.argv[1]))
    parent = os.pidfd_open(os.getppid())
    # A terminal's Ctrl-C is for the daemon, which then ends us in order; a plain kill leaves nothing behind either.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: control.shutdown(socket.SHUT_RD))
    become_subreaper()
    leave_session_keyring()
    _raise_descriptor_limit()
    own_pids = (os.getppid(), os.getpid())
    cgroups = WardenCgroups(find_locations(read_cgroup_view(lambda: own_pids)), own_pids)
    try:
        stages = MountStages() if is_host_root() else None
    except OSError as error:
        messages.send(
            control,
            WardenUnfit(STAGING_FAILED_CODE, f"nowhere can a root daemon lay out its cages: {error}", _UNFIT_HINT),
        )
        return
    assets = load_cage_assets()
    bwrap = BwrapLauncher(sys.argv[2], assets, stages)
    trees = next(iter(sys.argv[3:]), None)
    pool = ZygotePool(bwrap, cgroups, assets.seccomp, trees=trees, as_mount=stages is not None)
    messages.send(control, WardenReady(describe_mechanisms(cgroups.locations)))
    cgroups.remove_stale()
    kill_abandoned()
    try:
        WardenServer(control, pool, cgroups).run(parent)
    finally:
        if stages is not None:
            stages.close()


if __name__ == "__main__":
    main()
