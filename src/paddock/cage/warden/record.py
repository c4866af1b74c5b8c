"""One cage in the warden: from the request to start it until nothing of it is left."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import signal
import socket

from paddock.cage.bwrap.mount_stage import IdmapUnsupported
from paddock.cage.bwrap.pinned_path import PathHangs
from paddock.cage.cgroups import fallback_limits
from paddock.cage.cgroups.cgroup import Cgroup
from paddock.cage.cgroups.fallback_limits import set_niceness
from paddock.cage.confine.init_config import process_rlimits
from paddock.cage.launch_request import CageHandle, LaunchRequest, PluginStreams
from paddock.cage.linux import NO_DESCRIPTORS_CODE, RAISE_NOFILE_HINT, exit_status_of, is_descriptor_exhaustion
from paddock.cage.spec import NOBODY, CageSpec
from paddock.cage.zygote.pool import ZygotePool

MEMORY_CAUSE = "memory"


class CageRefusal(Exception):
    """A cage is not built; the code and the hint are for the caller of the launch."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class CageRecord:
    """A cage, its cgroup, and why it was killed if it was.

    Args:
        number: The daemon's number for it.
        spec: Its spec.
        handle: The cage itself.
        cgroup: Its cgroup.
    """

    def __init__(self, number: int, spec: CageSpec, handle: CageHandle, cgroup: Cgroup) -> None:
        self.number = number
        self.spec = spec
        self.handle = handle
        self.cgroup = cgroup
        self.deadline: float | None = None  # by when it must be ready; None once it is
        self.refusal: CageRefusal | None = None
        self.refusal_sent = False
        self.started = False  # whether the plugin's own code has begun to run
        self._plugin_pidfd: int | None = None
        self._in_cgroup = False
        self._oom_killed = False
        self._cause = ""

    @property
    def awaits_release(self) -> bool:
        """Whether the plugin is confined and waits for our decision."""
        return self.handle.plugin_pid is not None and not self.started and self.refusal is None and not self._cause

    @property
    def needs_memory_watch(self) -> bool:
        """Whether only our watchdog limits its memory."""
        return self.started and not self.cgroup.limits_memory

    def poll(self) -> int | None:
        """Process what happened. Returns how it ended, once everything is gone."""
        exit_code = self.handle.poll()
        if self.handle.init_pid is not None and not self._in_cgroup and exit_code is None:
            # As early as possible: moving a process takes the kernel a while, and meanwhile the cage is being built.
            self._in_cgroup = True
            with contextlib.suppress(OSError):
                if not self.cgroup.contains(self.handle.init_pid):
                    self.cgroup.add_process(self.handle.init_pid)
        if exit_code is not None and exit_code < 0 and self.started and self._plugin_pidfd is not None:
            # Bubblewrap reports a signal as a shell does, and so an exit code above 128 looks like one.
            status = exit_status_of(self._plugin_pidfd)
            return exit_code if status is None else status
        return exit_code

    def prepare_outside(self) -> list[socket.socket]:
        """Set limits and network outside the cage, before the plugin may run.

        Raises:
            CageRefusal: One of them failed; the plugin must not run.
        """
        plugin_pid = self.handle.plugin_pid
        assert plugin_pid is not None
        try:
            self._plugin_pidfd = os.pidfd_open(plugin_pid)
            if not self.cgroup.contains(plugin_pid):
                self.cgroup.add_process(plugin_pid)
            if not self.cgroup.limits_cpu:
                set_niceness(plugin_pid, self.spec.limits.cpu_weight)
            self.handle.limit_inotify()
        except OSError as error:
            raise CageRefusal(f"its limits could not be set ({error})", code="cage.limits_failed") from error
        return _open_listeners(plugin_pid, self.spec)

    def take_listener(self) -> int | None:
        """The seccomp listener of a learning cage, for the caller to close."""
        return self.handle.take_listener()

    def release(self) -> int:
        """Let the plugin run. Returns its pid."""
        plugin_pid = self.handle.plugin_pid
        assert plugin_pid is not None
        self.started = True
        self.deadline = None
        self.handle.release()
        return plugin_pid

    def refuse(self, refusal: CageRefusal) -> None:
        """Kill it before its program ran."""
        self.deadline = None
        self.refusal = self.refusal or refusal
        self.handle.kill()

    def signal(self, number: int) -> None:
        """Send a signal to the plugin's own process."""
        if self.started and self._plugin_pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._plugin_pidfd, number)

    def kill(self, cause: str) -> None:
        """Kill everything in it, for this cause."""
        self._cause = self._cause or cause
        if not self.started:
            self.refuse(CageRefusal("it was ended before it began", code="cage.launch_ended"))
        else:
            self.handle.kill()

    def watch_memory(self) -> None:
        """Kill it if it uses more memory than it may."""
        if self.handle.init_pid is not None and fallback_limits.exceeds_memory(
            self.handle.init_pid, self.spec.limits.memory_bytes
        ):
            self.kill(MEMORY_CAUSE)

    def cause_of(self, signal_number: int | None) -> str:
        """Why it ended, when it did not end by itself."""
        if self._cause:
            return self._cause
        return MEMORY_CAUSE if signal_number == signal.SIGKILL and self._oom_killed else ""

    def close(self) -> None:
        """Release everything. The cgroup's counters are read before it goes."""
        self._oom_killed = self.cgroup.was_oom_killed()
        self.handle.close()
        if self._plugin_pidfd is not None:
            os.close(self._plugin_pidfd)
        self.cgroup.discard()


def start_cage(number: int, spec: CageSpec, streams: PluginStreams, strategy: ZygotePool) -> CageRecord:
    """Begin to build a cage.

    Raises:
        CageRefusal: It cannot be built; nothing of it is left.
    """
    try:
        cgroup = strategy.cgroup_for(spec)
    except OSError as error:
        raise _to_refusal(error, "cage.limits_failed") from error
    try:
        limits = process_rlimits(spec.limits, memory=not cgroup.limits_memory, processes=not cgroup.limits_processes)
        handle = strategy.start(LaunchRequest(str(number), spec, streams, limits))
    except OSError as error:
        cgroup.remove()
        raise _to_refusal(error, "cage.start_failed") from error
    except Exception as error:
        # An unforeseen spec costs its own plugin the start, not the others their warden.
        cgroup.remove()
        raise CageRefusal(f"it could not be started ({error!r})", code="cage.start_failed") from error
    return CageRecord(number, spec, handle, cgroup)


def _to_refusal(error: OSError, code: str) -> CageRefusal:
    if is_descriptor_exhaustion(error):
        return CageRefusal("no descriptor is free", code=NO_DESCRIPTORS_CODE, hint=RAISE_NOFILE_HINT)
    if isinstance(error, PathHangs):
        hint = "look whether its file system still answers (ls), or take the grant back"
        return CageRefusal(f"{error.filename} does not answer", code="cage.place_hangs", hint=hint)
    if isinstance(error, IdmapUnsupported):
        hint = (
            f"move it to ext4, xfs, btrfs or tmpfs, grant a tree without mounts, or give it to user {NOBODY} (nobody)"
        )
        message = f"the file system of {error.filename}, or one mounted in it, cannot show it under another owner"
        return CageRefusal(message, code="cage.idmap_unsupported", hint=hint)
    if error.errno == errno.ENOENT and error.filename:
        return CageRefusal(f"{error.filename} is not there", code="cage.path_missing")
    if error.errno == errno.EACCES and error.filename:
        hint = f"namei -l {shlex.quote(str(error.filename))}   # then chmod what the daemon's user may not pass"
        return CageRefusal(f"{error.filename} may not be reached", code="cage.path_forbidden", hint=hint)
    return CageRefusal(f"it could not be started ({error})", code=code)


def _open_listeners(plugin_pid: int, spec: CageSpec) -> list[socket.socket]:
    if not spec.network and not (spec.learning and spec.learning.network):
        return []
    # Most plugins have no network, and then none of this is imported.
    from paddock.cage.network.netns import NetworkSetupFailed, open_cage_sockets
    from paddock.cage.plan.network_plan import plan_cage_network

    try:
        return open_cage_sockets(plugin_pid, plan_cage_network(spec))
    except NetworkSetupFailed as error:
        raise CageRefusal(str(error), code=error.code, hint=error.hint) from error
    except OSError as error:
        raise _to_refusal(error, "cage.network_failed") from error
