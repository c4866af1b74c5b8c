"""One cage as the warden sees it: from the order to start it until nothing of it is left."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import signal
import socket

from paddock.cage.cold.pinning import PlaceHangs
from paddock.cage.cold.staging import IdmapUnsupported
from paddock.cage.descriptors import HOW_TO_HAVE_MORE, NONE_FREE, none_free
from paddock.cage.kernel import how_it_ended
from paddock.cage.limits import watchdog
from paddock.cage.limits.groups import Group
from paddock.cage.limits.niceness import step_back
from paddock.cage.spec import NOBODY, CageSpec
from paddock.cage.walls.orders import resource_limits
from paddock.cage.ways import Body, Order, Streams, Way

MEMORY = "memory"


class Refusal(Exception):
    """A cage is not built; the code and the hint are for whoever wants to start the plugin."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class Caged:
    """A cage, its group, and why it was ended if somebody ended it.

    Args:
        number: What the daemon calls it.
        spec: What it is to be.
        body: The cage itself.
        group: What holds its resources.
    """

    def __init__(self, number: int, spec: CageSpec, body: Body, group: Group) -> None:
        self.number = number
        self.spec = spec
        self.body = body
        self.group = group
        self.deadline: float | None = None  # by when it must be ready; None once it is
        self.refusal: Refusal | None = None
        self.refusal_told = False
        self.started = False  # whether the plugin's own code has begun to run
        self._handle: int | None = None
        self._grouped = False
        self._out_of_memory = False
        self._cause = ""

    @property
    def waits_for_go(self) -> bool:
        """Whether the plugin stands behind its walls and nobody has decided yet."""
        return self.body.plugin is not None and not self.started and self.refusal is None and not self._cause

    @property
    def needs_watching(self) -> bool:
        """Whether its memory is bounded by nobody but us."""
        return self.started and not self.group.holds_memory

    def look(self) -> int | None:
        """Take in what happened; how it ended, once everything is gone."""
        ended = self.body.look()
        if self.body.first is not None and not self._grouped and ended is None:
            # As early as can be: moving a process takes the kernel a while, and meanwhile the cage is being built.
            self._grouped = True
            with contextlib.suppress(OSError):
                if not self.group.holds(self.body.first):
                    self.group.add(self.body.first)
        if ended is not None and ended < 0 and self.started and self._handle is not None:
            # Bubblewrap tells of a signal as a shell does, and so an exit code above 128 looks like one.
            told = how_it_ended(self._handle)
            return ended if told is None else told
        return ended

    def prepare(self) -> list[socket.socket]:
        """Do what has to be done outside before the plugin may run: its limits, and its network.

        Raises:
            Refusal: one of them could not be done; the plugin must not run.
        """
        plugin = self.body.plugin
        assert plugin is not None
        try:
            self._handle = os.pidfd_open(plugin)
            if not self.group.holds(plugin):
                self.group.add(plugin)
            if not self.group.holds_cpu:
                step_back(plugin, self.spec.limits.cpu_weight)
        except OSError as error:
            raise Refusal(f"its limits could not be set ({error})", code="cage.limits_failed") from error
        return _listeners(plugin, self.spec)

    def go(self) -> int:
        """Let the plugin run; its pid."""
        plugin = self.body.plugin
        assert plugin is not None
        self.started = True
        self.deadline = None
        self.body.go()
        return plugin

    def refuse(self, refusal: Refusal) -> None:
        """End it before it began."""
        self.deadline = None
        self.refusal = self.refusal or refusal
        self.body.kill()

    def signal(self, number: int) -> None:
        """Send a signal to the plugin's own process."""
        if self.started and self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self, cause: str) -> None:
        """End everything in it, for this reason."""
        self._cause = self._cause or cause
        if not self.started:
            self.refuse(Refusal("it was ended before it began", code="cage.launch_ended"))
        else:
            self.body.kill()

    def watch_memory(self) -> None:
        """End it if it holds more memory than it may."""
        if self.body.first is not None and watchdog.over(self.body.first, self.spec.limits.memory_bytes):
            self.kill(MEMORY)

    def cause_of(self, by: int | None) -> str:
        """Why it ended, when it did not end by itself."""
        if self._cause:
            return self._cause
        return MEMORY if by == signal.SIGKILL and self._out_of_memory else ""

    def close(self) -> None:
        """Let go of everything; what is read from the group is read before it goes."""
        self._out_of_memory = self.group.out_of_memory()
        self.body.close()
        if self._handle is not None:
            os.close(self._handle)
        self.group.discard()


def begin(number: int, spec: CageSpec, streams: Streams, way: Way) -> Caged:
    """Begin to build a cage.

    Raises:
        Refusal: it cannot be built; nothing of it is left.
    """
    try:
        group = way.group(spec)
    except OSError as error:
        raise _refusal(error, "cage.limits_failed") from error
    try:
        limits = resource_limits(spec.limits, memory=not group.holds_memory, processes=not group.holds_processes)
        body = way.start(Order(str(number), spec, streams, limits))
    except OSError as error:
        group.remove()
        raise _refusal(error, "cage.start_failed") from error
    except Exception as error:
        # A spec that nobody thought of costs its own plugin the start, not the others their warden.
        group.remove()
        raise Refusal(f"it could not be started ({error!r})", code="cage.start_failed") from error
    return Caged(number, spec, body, group)


def _refusal(error: OSError, code: str) -> Refusal:
    if none_free(error):
        return Refusal("no descriptor is free", code=NONE_FREE, hint=HOW_TO_HAVE_MORE)
    if isinstance(error, PlaceHangs):
        hint = "look whether its file system still answers (ls), or take the grant back"
        return Refusal(f"{error.filename} does not answer", code="cage.place_hangs", hint=hint)
    if isinstance(error, IdmapUnsupported):
        hint = (
            f"move it to ext4, xfs, btrfs or tmpfs, grant a tree without mounts, or give it to user {NOBODY} (nobody)"
        )
        message = f"the file system of {error.filename}, or one mounted in it, cannot show it under another owner"
        return Refusal(message, code="cage.idmap_unsupported", hint=hint)
    if error.errno == errno.ENOENT and error.filename:
        return Refusal(f"{error.filename} is not there", code="cage.path_missing")
    if error.errno == errno.EACCES and error.filename:
        hint = f"namei -l {shlex.quote(str(error.filename))}   # then chmod what the daemon's user may not pass"
        return Refusal(f"{error.filename} may not be reached", code="cage.path_forbidden", hint=hint)
    return Refusal(f"it could not be started ({error})", code=code)


def _listeners(plugin: int, spec: CageSpec) -> list[socket.socket]:
    if not spec.network:
        return []
    # Most plugins have no network, and then none of this is loaded.
    from paddock.cage.network.enter import CannotEnter, prepare_network
    from paddock.cage.plan.addresses import plan_network

    try:
        return prepare_network(plugin, plan_network(spec.network))
    except CannotEnter as error:
        raise Refusal(str(error), code=error.code, hint=error.hint) from error
    except OSError as error:
        raise _refusal(error, "cage.network_failed") from error
