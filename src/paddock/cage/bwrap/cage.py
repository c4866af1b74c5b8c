"""A cage that bubblewrap builds, from its first moment until nothing of it is left.

Bubblewrap is two processes: one outside, our child, which tells how the program ended; and one inside, the first of
the cage's own pid namespace, with which everything in the cage ends. Whoever ends a cage ends the inner one first: an
inner one whose outer has died while they were still building would wait for it for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct

from paddock.cage.bwrap.mount_stage import MountStage
from paddock.cage.linux import child_pids, is_readable

_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid


class BwrapCage:
    """A cage that bubblewrap builds or has built; see `ways.Body`."""

    def __init__(self, outer: int, gate: socket.socket | None, status: int, stage: MountStage | None) -> None:
        self._outer = outer
        self._outer_handle = os.pidfd_open(outer)
        self._inner_handle: int | None = None
        self._gate = gate
        self._status = status
        self._status_text = b""
        self._stage = stage
        self._ended: int | None = None
        self._orphans: list[int] = []
        self.init_pid: int | None = None
        self.plugin_pid: int | None = None

    def watched_fds(self) -> list[int]:
        """See `ways.Body`."""
        if self._ended is not None:
            # Also when it is over by now: whoever was told to wait for it must hear of that.
            return [] if self._inner_handle is None else [self._inner_handle]
        handles = [self._outer_handle]
        if self.init_pid is None:
            handles.append(self._status)
        if self._gate is not None and self.plugin_pid is None:
            handles.append(self._gate.fileno())
        return handles

    def poll(self) -> int | None:
        """See `ways.Body`."""
        self._read_status()
        self._read_gate()
        if self._ended is None:
            pid, status = os.waitpid(self._outer, os.WNOHANG)
            if pid != self._outer:
                return None
            self._ended = os.waitstatus_to_exitcode(status)
            self._kill_inner()
        # A cage's first process is done only after every other in it.
        if self._inner_handle is not None and not is_readable(self._inner_handle):
            return None
        self._reap_orphans()
        # Bubblewrap tells of a signal as a shell does.
        return 128 - self._ended if 128 < self._ended <= 128 + signal.SIGRTMAX else self._ended

    def release(self) -> None:
        """See `ways.Body`."""
        gate, self._gate = self._gate, None
        if gate is not None:
            with gate, contextlib.suppress(OSError):
                gate.send(b"G")
        self._close_stage()

    def kill(self) -> None:
        """See `ways.Body`."""
        self._read_status()
        if self._ended is None and self._inner_handle is None:
            # It may be about to make the inner one: held still first, so that we see whether it has.
            os.kill(self._outer, signal.SIGSTOP)
            os.waitid(os.P_PID, self._outer, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self._orphans = child_pids(self._outer)
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

    def _read_status(self) -> None:
        """Learn the inner process from the first line that bubblewrap writes."""
        if self.init_pid is not None:
            return
        with contextlib.suppress(BlockingIOError):
            self._status_text += os.read(self._status, 4096)
        line, whole, _ = self._status_text.partition(b"\n")
        if whole:
            self.init_pid = int(json.loads(line)["child-pid"])
            self._orphans = [self.init_pid]
            with contextlib.suppress(OSError):
                self._inner_handle = os.pidfd_open(self.init_pid)

    def _read_gate(self) -> None:
        """Learn the plugin's process: the kernel says who knocked, in our numbers and not in the cage's."""
        if self._gate is None or self.plugin_pid is not None:
            return
        try:
            knock, ancillary, _, _ = self._gate.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return
        except OSError:
            knock, ancillary = b"", []
        if knock == b"R" and ancillary:
            self.plugin_pid = _CREDENTIALS.unpack(ancillary[0][2])[0]
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
