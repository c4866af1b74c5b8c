"""One cage started from a zygote: a fork of a pre-started interpreter applies the same confinement to itself.

This is only ever a shortcut. Whatever goes wrong, the same cage is built with bubblewrap, so that a missing
or broken zygote shows in nothing but the start time.
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
from paddock.cage.launch_request import CageHandle, LaunchRequest, PluginStreams
from paddock.cage.linux import clone_mount_tree, create_memfd, is_readable
from paddock.cage.plan.network_plan import etc_file_contents, etc_files_for, plan_network
from paddock.cage.spec import CageSpec
from paddock.cage.zygote import program
from paddock.cage.zygote.zygote import ZygoteCopy

_EXIT_SETUP_FAILED = 125


@dataclass(frozen=True, slots=True)
class ForkRecipe:
    """What a copy needs besides the launch request."""

    root: str
    trees: str
    seccomp: bytes
    as_mount: bool  # whether the plugin's files are passed as a mount, since the zygote cannot see them


class ZygoteCage:
    """A cage built by a copy of a zygote, or by bubblewrap where that fails. Implements `CageHandle`.

    Args:
        request: The cage to start. The streams are duplicated.
        recipe: How a copy builds it.
        bwrap: The fallback.
        on_settled: Called once, when the zygote no longer matters; with whether the copy succeeded, or None
            where it never got a copy.
    """

    def __init__(
        self,
        request: LaunchRequest,
        recipe: ForkRecipe,
        bwrap: BwrapLauncher,
        on_settled: Callable[[ZygoteCage, bool | None], None],
    ) -> None:
        self._request = replace(request, streams=_duplicate_streams(request.streams))
        self._recipe = recipe
        self._bwrap = bwrap
        self._on_settled: Callable[[ZygoteCage, bool | None], None] | None = on_settled
        self._streams_open = True
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._copy: ZygoteCopy | None = None
        self._fallback: CageHandle | None = None
        self._ready = self._released = self._killed = False
        self._exit_code: int | None = None

    @property
    def init_pid(self) -> int | None:
        """See `CageHandle`."""
        if self._fallback is not None:
            return self._fallback.init_pid
        return self._copy.init_pid if self._copy is not None and self._ready else None

    @property
    def plugin_pid(self) -> int | None:
        """See `CageHandle`."""
        if self._fallback is not None:
            return self._fallback.plugin_pid
        return self._copy.plugin_pid if self._copy is not None and self._ready else None

    @property
    def needs_copy(self) -> bool:
        """Whether it can still use a copy."""
        return self._copy is None and self._fallback is None and self._exit_code is None

    def assign_copy(self, copy: ZygoteCopy) -> None:
        """Let this copy become the plugin."""
        self._copy = copy
        try:
            self._send_request(copy)
        except OSError:
            self._kill_copy(copy)
        os.eventfd_write(self._wakeup, 1)

    def fall_back_to_bwrap(self) -> None:
        """Use bubblewrap, because no copy comes or it takes too long; does nothing if the copy is ready after all."""
        if self._copy is not None and not self._ready:
            # `poll` sees a copy that ended without being ready.
            self._kill_copy(self._copy)
        elif self.needs_copy:
            self._start_bwrap()
            os.eventfd_write(self._wakeup, 1)

    def watched_fds(self) -> list[int]:
        """See `CageHandle`."""
        fds = [self._wakeup]
        if self._fallback is not None:
            fds += self._fallback.watched_fds()
        elif self._copy is not None:
            fds.append(self._copy.init_pidfd)
            if not self._ready:
                fds.append(self._copy.control.fileno())
        return fds

    def poll(self) -> int | None:
        """See `CageHandle`."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        if self._fallback is None and self._exit_code is None:
            self._poll_copy()
        if self._fallback is not None:
            return self._fallback.poll()
        return self._exit_code

    def take_listener(self) -> int | None:
        """See `CageHandle`. A learning cage is never started from a zygote."""
        return None

    def limit_inotify(self) -> None:
        """See `CageHandle`. A copy of the zygote has limited itself."""
        if self._fallback is not None:
            self._fallback.limit_inotify()

    def release(self) -> None:
        """See `CageHandle`."""
        if self._fallback is not None:
            self._fallback.release()
        elif self._copy is not None:
            self._released = True
            with contextlib.suppress(OSError):
                self._copy.control.send(b"go")

    def kill(self) -> None:
        """See `CageHandle`."""
        self._killed = True
        if self._fallback is not None:
            self._fallback.kill()
        elif self._copy is not None:
            self._kill_copy(self._copy)
        else:
            self._exit_code = -signal.SIGKILL
            os.eventfd_write(self._wakeup, 1)

    def close(self) -> None:
        """See `CageHandle`."""
        self._report(succeeded=self._released or self._killed)
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
        # The init process is only reaped after every other process in the cage.
        if self._released or self._killed:
            self._exit_code = _exit_status(copy.status)
        else:
            self._start_bwrap()

    def _is_ready(self, copy: ZygoteCopy) -> bool:
        try:
            message = copy.control.recv(program.MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            message = b""
        if message != b"ready":
            self._kill_copy(copy)
        return message == b"ready"

    def _kill_copy(self, copy: ZygoteCopy) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(copy.init_pidfd, signal.SIGKILL)

    def _start_bwrap(self) -> None:
        self._report(succeeded=None if self._copy is None else False)
        self._ready = False
        try:
            self._fallback = self._bwrap.start(self._request)
        except OSError:
            self._exit_code = _EXIT_SETUP_FAILED
        self._close_streams()

    def _send_request(self, copy: ZygoteCopy) -> None:
        with contextlib.ExitStack() as to_close:
            file = create_memfd(json.dumps(_request_fields(self._request, self._recipe)).encode())
            to_close.callback(os.close, file)
            tree = clone_mount_tree(self._recipe.root) if self._recipe.as_mount else None
            if tree is not None:
                to_close.callback(os.close, tree)
            streams = self._request.streams
            artifacts_in, artifacts_out = streams.artifacts or (None, None)
            copy.send_request(
                program.RequestDescriptors(
                    file, streams.stdin, streams.stdout, streams.stderr, artifacts_in, artifacts_out, tree
                )
            )

    def _report(self, *, succeeded: bool | None) -> None:
        on_settled, self._on_settled = self._on_settled, None
        if on_settled is not None:
            on_settled(self, succeeded)

    def _close_streams(self) -> None:
        if self._streams_open:
            self._streams_open = False
            for descriptor in self._request.streams.descriptors:
                os.close(descriptor)


def _request_fields(request: LaunchRequest, recipe: ForkRecipe) -> dict[str, Any]:
    spec = request.spec
    assert spec.python is not None
    return {
        "root": recipe.root,
        "trees": recipe.trees,
        "directory": spec.directory,
        "tmp_bytes": spec.limits.tmp_bytes,
        "etc": _differing_etc(spec),
        "orders": build_init_config(spec, request.resource_limits).decode("utf-8", "surrogateescape"),
        "seccomp": recipe.seccomp.hex(),
        "script": spec.python.script,
        "arguments": list(spec.python.arguments),
    }


def _differing_etc(spec: CageSpec) -> Mapping[str, str]:
    """The /etc files that differ from those of a plugin without network, which the zygote has."""
    common = etc_file_contents(plan_network(()))
    return {path: text for path, text in etc_files_for(spec).items() if common[path] != text}


def _exit_status(status: int) -> int:
    """Exit code, or a signal as a negative number. An init that was killed itself leaves nothing to read."""
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
