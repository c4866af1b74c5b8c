"""The fast way to start a cage: a copy of an interpreter that is warm already builds the same walls around itself.

It is only ever a shortcut. Whatever goes wrong on it, the same cage is built the plain way, so that neither a missing
nor a broken zygote is seen in anything but the time that a start takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from paddock.cage.bwrap.launcher import BwrapLauncher
from paddock.cage.confine.init_config import build_init_config
from paddock.cage.launch_strategy import CageHandle, LaunchRequest, PluginStreams
from paddock.cage.linux import clone_mount_tree, create_memfd, is_readable
from paddock.cage.plan.network_plan import etc_file_contents, etc_files_for, plan_network
from paddock.cage.spec import CageSpec
from paddock.cage.zygote import program
from paddock.cage.zygote.zygote import ZygoteCopy

_EXIT_SETUP_FAILED = 125


@dataclass(frozen=True, slots=True)
class ForkRecipe:
    """What a copy needs besides the order itself."""

    root: str
    trees: str
    seccomp: bytes
    as_mount: bool  # whether the plugin's files come as a mount, since the zygote cannot see them


class ZygoteCage:
    """A cage that a copy of a zygote builds, or bubblewrap where that fails; see `ways.Body`.

    Args:
        order: What to start. The streams are copied.
        recipe: How a copy does it.
        cold: The way to fall back to.
        ended: Called once, when it no longer is a matter of the zygote; with whether the copy did its part, or None
            where it never got a copy.
    """

    def __init__(
        self,
        order: LaunchRequest,
        recipe: ForkRecipe,
        cold: BwrapLauncher,
        ended: Callable[[ZygoteCage, bool | None], None],
    ) -> None:
        self._order = replace(order, streams=_duplicate_streams(order.streams))
        self._recipe = recipe
        self._bwrap = cold
        self._tell: Callable[[ZygoteCage, bool | None], None] | None = ended
        self._streams_open = True
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._copy: ZygoteCopy | None = None
        self._fallback: CageHandle | None = None
        self._ready = self._going = self._killed = False
        self._ended: int | None = None

    @property
    def init_pid(self) -> int | None:
        """See `ways.Body`."""
        if self._fallback is not None:
            return self._fallback.init_pid
        return self._copy.init_pid if self._copy is not None and self._ready else None

    @property
    def plugin_pid(self) -> int | None:
        """See `ways.Body`."""
        if self._fallback is not None:
            return self._fallback.plugin_pid
        return self._copy.plugin_pid if self._copy is not None and self._ready else None

    @property
    def needs_copy(self) -> bool:
        """Whether a copy is still of use to it."""
        return self._copy is None and self._fallback is None and self._ended is None

    def assign_copy(self, copy: ZygoteCopy) -> None:
        """Have this copy become the plugin."""
        self._copy = copy
        try:
            self._send_request(copy)
        except OSError:
            self._kill_copy(copy)
        os.eventfd_write(self._wakeup, 1)

    def fall_back_to_bwrap(self) -> None:
        """No copy will come, or it takes too long: the plain way from here, unless it is ready after all."""
        if self._copy is not None and not self._ready:
            # Seen as a copy that ended without being ready.
            self._kill_copy(self._copy)
        elif self.needs_copy:
            self._start_bwrap()
            os.eventfd_write(self._wakeup, 1)

    def watched_fds(self) -> list[int]:
        """See `ways.Body`."""
        handles = [self._wakeup]
        if self._fallback is not None:
            handles += self._fallback.watched_fds()
        elif self._copy is not None:
            handles.append(self._copy.init_pidfd)
            if not self._ready:
                handles.append(self._copy.control.fileno())
        return handles

    def poll(self) -> int | None:
        """See `ways.Body`."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        if self._fallback is None and self._ended is None:
            self._poll_copy()
        if self._fallback is not None:
            return self._fallback.poll()
        return self._ended

    def release(self) -> None:
        """See `ways.Body`."""
        if self._fallback is not None:
            self._fallback.release()
        elif self._copy is not None:
            self._going = True
            with contextlib.suppress(OSError):
                self._copy.control.send(b"go")

    def kill(self) -> None:
        """See `ways.Body`."""
        self._killed = True
        if self._fallback is not None:
            self._fallback.kill()
        elif self._copy is not None:
            self._kill_copy(self._copy)
        else:
            self._ended = -signal.SIGKILL
            os.eventfd_write(self._wakeup, 1)

    def close(self) -> None:
        """See `ways.Body`."""
        self._report(well=self._going or self._killed)
        self._close_streams()
        os.close(self._wakeup)
        if self._fallback is not None:
            self._fallback.close()
        if self._copy is not None:
            self._copy.close()

    def _poll_copy(self) -> None:
        copy = self._copy
        if copy is None:
            return
        if not self._ready and self._is_ready(copy):
            self._ready = True
            self._close_streams()
        if not is_readable(copy.init_pidfd):
            return
        # The first process is done only after every other in the cage.
        if self._going or self._killed:
            self._ended = _exit_status(copy.status)
        else:
            self._start_bwrap()

    def _is_ready(self, copy: ZygoteCopy) -> bool:
        try:
            said = copy.control.recv(program.MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            said = b""
        if said != b"ready":
            self._kill_copy(copy)
        return said == b"ready"

    def _kill_copy(self, copy: ZygoteCopy) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(copy.init_pidfd, signal.SIGKILL)

    def _start_bwrap(self) -> None:
        self._report(well=None if self._copy is None else False)
        self._ready = False
        try:
            self._fallback = self._bwrap.start(self._order)
        except OSError:
            self._ended = _EXIT_SETUP_FAILED
        self._close_streams()

    def _send_request(self, copy: ZygoteCopy) -> None:
        with contextlib.ExitStack() as ours:
            file = create_memfd(json.dumps(_request_fields(self._order, self._recipe)).encode())
            ours.callback(os.close, file)
            tree = clone_mount_tree(self._recipe.root) if self._recipe.as_mount else None
            if tree is not None:
                ours.callback(os.close, tree)
            streams = self._order.streams
            source, sink = streams.artifacts or (None, None)
            copy.send_request(
                program.RequestDescriptors(file, streams.stdin, streams.stdout, streams.stderr, source, sink, tree)
            )

    def _report(self, *, well: bool | None) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(self, well)

    def _close_streams(self) -> None:
        if self._streams_open:
            self._streams_open = False
            for descriptor in self._order.streams.descriptors:
                os.close(descriptor)


def _request_fields(order: LaunchRequest, recipe: ForkRecipe) -> dict[str, Any]:
    spec = order.spec
    assert spec.python is not None
    return {
        "root": recipe.root,
        "trees": recipe.trees,
        "directory": spec.directory,
        "tmp_bytes": spec.limits.tmp_bytes,
        "etc": _differing_etc(spec),
        "orders": build_init_config(spec, order.resource_limits).decode("utf-8", "surrogateescape"),
        "seccomp": recipe.seccomp.hex(),
        "script": spec.python.script,
        "arguments": list(spec.python.arguments),
    }


def _differing_etc(spec: CageSpec) -> Mapping[str, str]:
    """The files of /etc that are not those of a plugin without network, which the zygote has."""
    common = etc_file_contents(plan_network(()))
    return {path: text for path, text in etc_files_for(spec).items() if common[path] != text}


def _exit_status(status: int) -> int:
    """Exit code, or a signal as a negative number. A first process that was killed itself leaves nothing to read."""
    text = os.read(status, 16)
    return os.waitstatus_to_exitcode(int(text)) if text else -signal.SIGKILL


def _duplicate_streams(streams: PluginStreams) -> PluginStreams:
    with contextlib.ExitStack() as undo:
        copies: list[int] = []
        for descriptor in streams.descriptors:
            copies.append(os.dup(descriptor))
            undo.callback(os.close, copies[-1])
        undo.pop_all()
        return PluginStreams(*copies[:3], artifacts=None if streams.artifacts is None else (copies[3], copies[4]))
