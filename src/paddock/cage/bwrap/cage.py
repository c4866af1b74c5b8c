"""One cage built by bubblewrap, from the fork until every process in it is gone.

Bubblewrap is two processes: an outer one, our child, which reports how the program ended; and an inner one, the init
process of the cage's pid namespace, with which everything in the cage ends. Always kill the inner one first: an
inner process whose outer one has died while the cage was still being built would wait for it forever.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys

from paddock.cage.bwrap.mount_stage import MountStage
from paddock.cage.confine.sandbox_init import INOTIFY_LIMITS
from paddock.cage.linux import child_pids, is_readable, limit_in_user_namespace

_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid
_ANCILLARY_BYTES = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4)  # and one descriptor


class BwrapCage:
    """A cage that bubblewrap builds or has built. Implements `CageHandle`."""

    def __init__(self, outer_pid: int, gate: socket.socket | None, status_fd: int, stage: MountStage | None) -> None:
        self._outer_pid = outer_pid
        self._outer_pidfd = os.pidfd_open(outer_pid)
        self._inner_pidfd: int | None = None
        self._gate = gate
        self._status_fd = status_fd
        self._status_text = b""
        self._stage = stage
        self._exit_code: int | None = None
        self._orphans: list[int] = []
        self._listener: int | None = None
        self.init_pid: int | None = None
        self.plugin_pid: int | None = None

    def watched_fds(self) -> list[int]:
        """See `CageHandle`."""
        if self._exit_code is not None:
            # Also when the process is gone by now: a caller that waits for it must be woken.
            return [] if self._inner_pidfd is None else [self._inner_pidfd]
        fds = [self._outer_pidfd]
        if self.init_pid is None:
            fds.append(self._status_fd)
        if self._gate is not None and self.plugin_pid is None:
            fds.append(self._gate.fileno())
        return fds

    def poll(self) -> int | None:
        """See `CageHandle`."""
        self._read_status()
        self._read_gate()
        if self._exit_code is None:
            pid, status = os.waitpid(self._outer_pid, os.WNOHANG)
            if pid != self._outer_pid:
                return None
            self._exit_code = os.waitstatus_to_exitcode(status)
            self._kill_inner()
        # The init process of a pid namespace is only reaped after every other process in it.
        if self._inner_pidfd is not None and not is_readable(self._inner_pidfd):
            return None
        self._reap_orphans()
        # Bubblewrap reports a signal as a shell does.
        return 128 - self._exit_code if 128 < self._exit_code <= 128 + signal.SIGRTMAX else self._exit_code

    def take_listener(self) -> int | None:
        """See `CageHandle`."""
        listener, self._listener = self._listener, None
        return listener

    def limit_inotify(self) -> None:
        """See `CageHandle`. Bubblewrap cannot do it, and no process in the cage has the right to."""
        assert self.plugin_pid is not None
        limit_in_user_namespace(self.plugin_pid, INOTIFY_LIMITS)

    def release(self) -> None:
        """See `CageHandle`."""
        gate, self._gate = self._gate, None
        if gate is not None:
            with gate, contextlib.suppress(OSError):
                gate.send(b"G")
        self._close_stage()

    def kill(self) -> None:
        """See `CageHandle`."""
        self._read_status()
        if self._exit_code is None and self._inner_pidfd is None:
            # It may be about to fork the inner process: stop it first, so that we see whether it has.
            os.kill(self._outer_pid, signal.SIGSTOP)
            os.waitid(os.P_PID, self._outer_pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self._orphans = child_pids(self._outer_pid)
            for inner in self._orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(inner, signal.SIGKILL)
            os.kill(self._outer_pid, signal.SIGKILL)
        # The outer process ends with the inner one, and reaps it.
        self._kill_inner()

    def close(self) -> None:
        """See `CageHandle`."""
        self._close_stage()
        if self._gate is not None:
            self._gate.close()
        for descriptor in (self._status_fd, self._outer_pidfd, self._inner_pidfd, self._listener):
            if descriptor is not None:
                os.close(descriptor)

    def _read_status(self) -> None:
        """Learn the inner process's pid from the first status line that bubblewrap writes."""
        if self.init_pid is not None:
            return
        with contextlib.suppress(BlockingIOError):
            self._status_text += os.read(self._status_fd, 4096)
        line, newline, _ = self._status_text.partition(b"\n")
        if newline:
            self.init_pid = int(json.loads(line)["child-pid"])
            self._orphans = [self.init_pid]
            with contextlib.suppress(OSError):
                self._inner_pidfd = os.pidfd_open(self.init_pid)

    def _read_gate(self) -> None:
        """Learn the plugin's pid, and get its listener in a learning cage. The kernel attaches the sender's
        credentials, in the host's pid namespace."""
        if self._gate is None or self.plugin_pid is not None:
            return
        try:
            message, ancillary, _, _ = self._gate.recvmsg(1, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            message, ancillary = b"", []
        parts = {kind: data for _, kind, data in ancillary}
        if rights := parts.get(socket.SCM_RIGHTS):
            self._listener = int.from_bytes(rights, sys.byteorder)
        if message == b"R" and socket.SCM_CREDENTIALS in parts:
            self.plugin_pid = _CREDENTIALS.unpack(parts[socket.SCM_CREDENTIALS])[0]
        else:
            # The plugin ends by itself: no process behind the gate goes on without an answer.
            self._gate.close()
            self._gate = None

    def _reap_orphans(self) -> None:
        """Reap an inner process whose outer one died first. It has been killed by now."""
        for orphan in self._orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)
        self._orphans = []

    def _kill_inner(self) -> None:
        if self._inner_pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner_pidfd, signal.SIGKILL)

    def _close_stage(self) -> None:
        """Remove the stage. Bubblewrap has mounts of its own by now."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None
