"""One cage as the warden sees it: from the order to start it until nothing of it is left."""

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
from paddock.cage.launch_strategy import CageHandle, LaunchRequest, LaunchStrategy, PluginStreams
from paddock.cage.linux import NO_DESCRIPTORS_CODE, RAISE_NOFILE_HINT, exit_status_of, is_descriptor_exhaustion
from paddock.cage.spec import NOBODY, CageSpec

MEMORY_CAUSE = "memory"


class CageRefusal(Exception):
    """A cage is not built; the code and the hint are for whoever wants to start the plugin."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class CageRecord:
    """A cage, its group, and why it was ended if somebody ended it.

    Args:
        number: What the daemon calls it.
        spec: What it is to be.
        body: The cage itself.
        group: What holds its resources.
    """

    def __init__(self, number: int, spec: CageSpec, body: CageHandle, group: Cgroup) -> None:
        self.number = number
        self.spec = spec
        self.handle = body
        self.cgroup = group
        self.deadline: float | None = None  # by when it must be ready; None once it is
        self.refusal: CageRefusal | None = None
        self.refusal_sent = False
        self.started = False  # whether the plugin's own code has begun to run
        self._handle: int | None = None
        self._in_cgroup = False
        self._out_of_memory = False
        self._cause = ""

    @property
    def awaits_release(self) -> bool:
        """Whether the plugin stands behind its walls and nobody has decided yet."""
        return self.handle.plugin_pid is not None and not self.started and self.refusal is None and not self._cause

    @property
    def needs_memory_watch(self) -> bool:
        """Whether its memory is bounded by nobody but us."""
        return self.started and not self.cgroup.limits_memory

    def poll(self) -> int | None:
        """Take in what happened; how it ended, once everything is gone."""
        ended = self.handle.poll()
        if self.handle.init_pid is not None and not self._in_cgroup and ended is None:
            # As early as can be: moving a process takes the kernel a while, and meanwhile the cage is being built.
            self._in_cgroup = True
            with contextlib.suppress(OSError):
                if not self.cgroup.contains(self.handle.init_pid):
                    self.cgroup.add_process(self.handle.init_pid)
        if ended is not None and ended < 0 and self.started and self._handle is not None:
            # Bubblewrap tells of a signal as a shell does, and so an exit code above 128 looks like one.
            told = exit_status_of(self._handle)
            return ended if told is None else told
        return ended

    def prepare_outside(self) -> list[socket.socket]:
        """Do what has to be done outside before the plugin may run: its limits, and its network.

        Raises:
            Refusal: one of them could not be done; the plugin must not run.
        """
        plugin = self.handle.plugin_pid
        assert plugin is not None
        try:
            self._handle = os.pidfd_open(plugin)
            if not self.cgroup.contains(plugin):
                self.cgroup.add_process(plugin)
            if not self.cgroup.limits_cpu:
                set_niceness(plugin, self.spec.limits.cpu_weight)
        except OSError as error:
            raise CageRefusal(f"its limits could not be set ({error})", code="cage.limits_failed") from error
        return _listeners(plugin, self.spec)

    def release(self) -> int:
        """Let the plugin run; its pid."""
        plugin = self.handle.plugin_pid
        assert plugin is not None
        self.started = True
        self.deadline = None
        self.handle.release()
        return plugin

    def refuse(self, refusal: CageRefusal) -> None:
        """End it before it began."""
        self.deadline = None
        self.refusal = self.refusal or refusal
        self.handle.kill()

    def signal(self, number: int) -> None:
        """Send a signal to the plugin's own process."""
        if self.started and self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self, cause: str) -> None:
        """End everything in it, for this reason."""
        self._cause = self._cause or cause
        if not self.started:
            self.refuse(CageRefusal("it was ended before it began", code="cage.launch_ended"))
        else:
            self.handle.kill()

    def watch_memory(self) -> None:
        """End it if it holds more memory than it may."""
        if self.handle.init_pid is not None and fallback_limits.exceeds_memory(
            self.handle.init_pid, self.spec.limits.memory_bytes
        ):
            self.kill(MEMORY_CAUSE)

    def cause_of(self, by: int | None) -> str:
        """Why it ended, when it did not end by itself."""
        if self._cause:
            return self._cause
        return MEMORY_CAUSE if by == signal.SIGKILL and self._out_of_memory else ""

    def close(self) -> None:
        """Let go of everything; what is read from the group is read before it goes."""
        self._out_of_memory = self.cgroup.was_oom_killed()
        self.handle.close()
        if self._handle is not None:
            os.close(self._handle)
        self.cgroup.discard()


def start_cage(number: int, spec: CageSpec, streams: PluginStreams, way: LaunchStrategy) -> CageRecord:
    """Begin to build a cage.

    Raises:
        Refusal: it cannot be built; nothing of it is left.
    """
    try:
        group = way.cgroup_for(spec)
    except OSError as error:
        raise _to_refusal(error, "cage.limits_failed") from error
    try:
        limits = process_rlimits(spec.limits, memory=not group.limits_memory, processes=not group.limits_processes)
        body = way.start(LaunchRequest(str(number), spec, streams, limits))
    except OSError as error:
        group.remove()
        raise _to_refusal(error, "cage.start_failed") from error
    except Exception as error:
        # A spec that nobody thought of costs its own plugin the start, not the others their warden.
        group.remove()
        raise CageRefusal(f"it could not be started ({error!r})", code="cage.start_failed") from error
    return CageRecord(number, spec, body, group)


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


def _listeners(plugin: int, spec: CageSpec) -> list[socket.socket]:
    if not spec.network:
        return []
    # Most plugins have no network, and then none of this is loaded.
    from paddock.cage.network.netns import NetworkSetupFailed, open_cage_sockets
    from paddock.cage.plan.network_plan import plan_network

    try:
        return open_cage_sockets(plugin, plan_network(spec.network))
    except NetworkSetupFailed as error:
        raise CageRefusal(str(error), code=error.code, hint=error.hint) from error
    except OSError as error:
        raise _to_refusal(error, "cage.network_failed") from error
