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

from paddock.cage.cold.way import ColdWay
from paddock.cage.descriptors import file_with, readable
from paddock.cage.kernel import detached_tree
from paddock.cage.plan.addresses import plan_network
from paddock.cage.plan.etc_files import etc_files, own_etc
from paddock.cage.spec import CageSpec
from paddock.cage.walls.orders import orders
from paddock.cage.warm import process
from paddock.cage.warm.zygote import Copy
from paddock.cage.ways import Body, Order, Streams

_BROKEN = 125


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a copy needs besides the order itself."""

    root: str
    trees: str
    seccomp: bytes
    as_mount: bool  # whether the plugin's files come as a mount, since the zygote cannot see them


class WarmBody:
    """A cage that a copy of a zygote builds, or bubblewrap where that fails; see `ways.Body`.

    Args:
        order: What to start. The streams are copied.
        recipe: How a copy does it.
        cold: The way to fall back to.
        ended: Called once, when it no longer is a matter of the zygote; with whether the copy did its part, or None
            where it never got a copy.
    """

    def __init__(
        self, order: Order, recipe: Recipe, cold: ColdWay, ended: Callable[[WarmBody, bool | None], None]
    ) -> None:
        self._order = replace(order, streams=_copied(order.streams))
        self._recipe = recipe
        self._cold_way = cold
        self._tell: Callable[[WarmBody, bool | None], None] | None = ended
        self._streams_open = True
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._copy: Copy | None = None
        self._cold: Body | None = None
        self._ready = self._going = self._killed = False
        self._ended: int | None = None

    @property
    def first(self) -> int | None:
        """See `ways.Body`."""
        if self._cold is not None:
            return self._cold.first
        return self._copy.first if self._copy is not None and self._ready else None

    @property
    def plugin(self) -> int | None:
        """See `ways.Body`."""
        if self._cold is not None:
            return self._cold.plugin
        return self._copy.plugin if self._copy is not None and self._ready else None

    @property
    def waits(self) -> bool:
        """Whether a copy is still of use to it."""
        return self._copy is None and self._cold is None and self._ended is None

    def use(self, copy: Copy) -> None:
        """Have this copy become the plugin."""
        self._copy = copy
        try:
            self._give_order(copy)
        except OSError:
            self._kill_copy(copy)
        os.eventfd_write(self._bell, 1)

    def give_up(self) -> None:
        """No copy will come, or it takes too long: the plain way from here, unless it is ready after all."""
        if self._copy is not None and not self._ready:
            # Seen as a copy that ended without being ready.
            self._kill_copy(self._copy)
        elif self.waits:
            self._start_cold()
            os.eventfd_write(self._bell, 1)

    def watched(self) -> list[int]:
        """See `ways.Body`."""
        handles = [self._bell]
        if self._cold is not None:
            handles += self._cold.watched()
        elif self._copy is not None:
            handles.append(self._copy.first_handle)
            if not self._ready:
                handles.append(self._copy.control.fileno())
        return handles

    def look(self) -> int | None:
        """See `ways.Body`."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        if self._cold is None and self._ended is None:
            self._look_at_copy()
        if self._cold is not None:
            return self._cold.look()
        return self._ended

    def go(self) -> None:
        """See `ways.Body`."""
        if self._cold is not None:
            self._cold.go()
        elif self._copy is not None:
            self._going = True
            with contextlib.suppress(OSError):
                self._copy.control.send(b"go")

    def kill(self) -> None:
        """See `ways.Body`."""
        self._killed = True
        if self._cold is not None:
            self._cold.kill()
        elif self._copy is not None:
            self._kill_copy(self._copy)
        else:
            self._ended = -signal.SIGKILL
            os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """See `ways.Body`."""
        self._report(well=self._going or self._killed)
        self._close_streams()
        os.close(self._bell)
        if self._cold is not None:
            self._cold.close()
        if self._copy is not None:
            self._copy.close()

    def _look_at_copy(self) -> None:
        copy = self._copy
        if copy is None:
            return
        if not self._ready and self._is_ready(copy):
            self._ready = True
            self._close_streams()
        if not readable(copy.first_handle):
            return
        # The first process is done only after every other in the cage.
        if self._going or self._killed:
            self._ended = _how_it_ended(copy.status)
        else:
            self._start_cold()

    def _is_ready(self, copy: Copy) -> bool:
        try:
            said = copy.control.recv(process.LONGEST_MESSAGE)
        except BlockingIOError:
            return False
        except OSError:
            said = b""
        if said != b"ready":
            self._kill_copy(copy)
        return said == b"ready"

    def _kill_copy(self, copy: Copy) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(copy.first_handle, signal.SIGKILL)

    def _start_cold(self) -> None:
        self._report(well=None if self._copy is None else False)
        self._ready = False
        try:
            self._cold = self._cold_way.start(self._order)
        except OSError:
            self._ended = _BROKEN
        self._close_streams()

    def _give_order(self, copy: Copy) -> None:
        with contextlib.ExitStack() as ours:
            file = file_with(json.dumps(_asked(self._order, self._recipe)).encode())
            ours.callback(os.close, file)
            tree = detached_tree(self._recipe.root) if self._recipe.as_mount else None
            if tree is not None:
                ours.callback(os.close, tree)
            streams = self._order.streams
            source, sink = streams.artifacts or (None, None)
            copy.order(process.Order(file, streams.stdin, streams.stdout, streams.stderr, source, sink, tree))

    def _report(self, *, well: bool | None) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(self, well)

    def _close_streams(self) -> None:
        if self._streams_open:
            self._streams_open = False
            for descriptor in self._order.streams.all:
                os.close(descriptor)


def _asked(order: Order, recipe: Recipe) -> dict[str, Any]:
    spec = order.spec
    assert spec.python is not None
    return {
        "root": recipe.root,
        "trees": recipe.trees,
        "directory": spec.directory,
        "tmp_bytes": spec.limits.tmp_bytes,
        "etc": _differing_etc(spec),
        "orders": orders(spec, order.resource_limits).decode("utf-8", "surrogateescape"),
        "seccomp": recipe.seccomp.hex(),
        "script": spec.python.script,
        "arguments": list(spec.python.arguments),
    }


def _differing_etc(spec: CageSpec) -> Mapping[str, str]:
    """The files of /etc that are not those of a plugin without network, which the zygote has."""
    common = etc_files(plan_network(()))
    return {path: text for path, text in own_etc(spec).items() if common[path] != text}


def _how_it_ended(status: int) -> int:
    """Exit code, or a signal as a negative number. A first process that was killed itself leaves nothing to read."""
    text = os.read(status, 16)
    return os.waitstatus_to_exitcode(int(text)) if text else -signal.SIGKILL


def _copied(streams: Streams) -> Streams:
    with contextlib.ExitStack() as undo:
        copies: list[int] = []
        for descriptor in streams.all:
            copies.append(os.dup(descriptor))
            undo.callback(os.close, copies[-1])
        undo.pop_all()
        return Streams(*copies[:3], artifacts=None if streams.artifacts is None else (copies[3], copies[4]))
