"""The warden's zygotes: one for each kind of Python plugin, started when it is first wanted, stopped when it is not.

A first launch does not wait for a zygote, which takes longer to start than the launch itself does; it goes the plain
way, and the zygote is there for the next. A launch that finds its zygote alive but without a spare copy waits a
moment for one. Zygotes that fail twice in a row are left alone for a while.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from paddock.cage.bwrap.launcher import BwrapLauncher
from paddock.cage.cgroups.cgroup import Cgroup, WardenCgroups
from paddock.cage.launch_strategy import CageHandle, LaunchRequest
from paddock.cage.spec import WORKER_SCRIPT, CageSpec
from paddock.cage.zygote.cage import ForkRecipe, ZygoteCage
from paddock.cage.zygote.warm_start import WarmStart, ZygoteKey, add_plugin_trees, plan_warm_start, shadows_library
from paddock.cage.zygote.zygote import Zygote, ZygoteCopy, start_zygote

MAX_ZYGOTES = 4
MAX_CONSECUTIVE_FAILURES = 2
COOLDOWN_S = 60.0
IDLE_TIMEOUT_S = 300.0
COPY_TIMEOUT_S = 1.0  # from the order until every wall stands; on an idle machine it takes milliseconds


@dataclass(slots=True)
class _PoolEntry:
    """One zygote and everything that has to do with it."""

    zygote: Zygote
    used_at: float
    spare: ZygoteCopy | None = None
    spare_group: Cgroup | None = None  # it is in its group before it is wanted: moving a process takes the kernel long
    was_warm: bool = False
    waiting: deque[ZygoteCage] = field(default_factory=deque[ZygoteCage])
    unready: dict[ZygoteCage, float] = field(default_factory=dict[ZygoteCage, float])  # by when each must be
    living: set[ZygoteCage] = field(default_factory=set[ZygoteCage])


class ZygotePool:
    """Starts plugins warm where that is the same as cold, and cold otherwise; a `ways.Way` that has to be looked at.

    Args:
        cold: The plain way.
        groups: Makes the groups that hold the cages' resources.
        seccomp: The filter that every cage has.
        trees: The directory around the files of all installed plugins; without it everything is started cold.
        as_mount: Whether a plugin's files are given to a copy as a mount, which takes root; else the zygote sees them.
    """

    def __init__(
        self, cold: BwrapLauncher, groups: WardenCgroups, seccomp: bytes, *, trees: str | None, as_mount: bool
    ) -> None:
        self._bwrap = cold
        self._groups = groups
        self._seccomp = seccomp
        self._trees = trees
        self._as_mount = as_mount
        self._entries: dict[ZygoteKey, _PoolEntry] = {}
        self._stopping: list[Zygote] = []
        self._draining_cgroups: list[Cgroup] = []
        self._failures: dict[ZygoteKey, int] = {}
        self._cooldown_until: dict[ZygoteKey, float] = {}
        self._started = 0

    def cgroup_for(self, spec: CageSpec) -> Cgroup:
        """The group for the cage that is started next.

        Raises:
            OSError: the kernel refused.
        """
        fitting = self._warm_start(spec)
        nest = None if fitting is None else self._entries.get(fitting.key)
        if nest is None or nest.spare_group is None:
            return self._groups.create(spec.limits)
        nest.spare_group.limit(spec.limits)
        return nest.spare_group

    def start(self, order: LaunchRequest) -> CageHandle:
        """See `ways.Way`."""
        fitting = self._warm_start(order.spec)
        nest = None if fitting is None else self._entry_for(fitting)
        if fitting is None or nest is None or not nest.was_warm or self._trees is None:
            return self._bwrap.start(order)
        recipe = ForkRecipe(fitting.root, self._trees, self._seccomp, self._as_mount)

        def over(body: ZygoteCage, well: bool | None) -> None:
            self._on_cage_settled(fitting.key, nest, body, well=well)

        body = ZygoteCage(order, recipe, self._bwrap, over)
        nest.living.add(body)
        nest.unready[body] = time.monotonic() + COPY_TIMEOUT_S
        nest.waiting.append(body)
        _assign_spare(nest)
        return body

    def watched_fds(self) -> list[int]:
        """Descriptors that become readable when there is something to look at."""
        zygotes = [*(nest.zygote for nest in self._entries.values()), *self._stopping]
        return [descriptor for zygote in zygotes for descriptor in zygote.watched_fds()]

    @property
    def deadline(self) -> float | None:
        """When to look even if nothing happened."""
        times = [until for nest in self._entries.values() for until in nest.unready.values()]
        times += [nest.used_at + IDLE_TIMEOUT_S for nest in self._entries.values() if not nest.living]
        return min(times, default=None)

    def poll(self) -> None:
        """Take in what happened to the zygotes, and what should have happened by now."""
        now = time.monotonic()
        for zygote in list(self._stopping):
            for copy in zygote.poll():
                copy.close()
            if zygote.gone:
                self._stopping.remove(zygote)
        for kind, nest in list(self._entries.items()):
            for copy in nest.zygote.poll():
                self._add_copy(nest, copy)
            _assign_spare(nest)
            for body, until in list(nest.unready.items()):
                if body.init_pid is not None:
                    del nest.unready[body]
                elif until <= now:
                    if body.needs_copy:
                        self._count_result(kind, well=False)
                    del nest.unready[body]
                    body.fall_back_to_bwrap()
            if nest.zygote.failed:
                self._count_result(kind, well=False)
                self._stop_zygote(kind)
            elif not nest.living and nest.used_at + IDLE_TIMEOUT_S <= now:
                self._stop_zygote(kind)
        self._draining_cgroups = [group for group in self._draining_cgroups if not group.remove()]

    def close(self) -> None:
        """End every zygote; look until `watched` is empty to see them gone."""
        for kind in list(self._entries):
            self._stop_zygote(kind)

    def _warm_start(self, spec: CageSpec) -> WarmStart | None:
        """How a spec fits a zygote that may be asked now."""
        fitting = plan_warm_start(spec, self._trees)
        if (
            fitting is None
            or self._cooldown_until.get(fitting.key, 0.0) > time.monotonic()
            or _shadows_loaded_module(spec)
        ):
            return None
        return fitting

    def _entry_for(self, fitting: WarmStart) -> _PoolEntry | None:
        now = time.monotonic()
        if fitting.key in self._entries:
            self._entries[fitting.key].used_at = now
            return self._entries[fitting.key]
        if not self._make_room():
            return None
        self._started += 1
        assert self._trees is not None
        spec = add_plugin_trees(fitting.zygote, self._trees, seen=not self._as_mount)
        try:
            zygote = start_zygote(self._bwrap, f"zygote-{self._started}", spec)
        except OSError:
            self._count_result(fitting.key, well=False)
            return None
        self._entries[fitting.key] = _PoolEntry(zygote, now)
        return self._entries[fitting.key]

    def _make_room(self) -> bool:
        """Whether another zygote may be started; one that nobody uses makes room."""
        if len(self._entries) < MAX_ZYGOTES:
            return True
        unused = [kind for kind, nest in self._entries.items() if not nest.living]
        if unused:
            self._stop_zygote(min(unused, key=lambda kind: self._entries[kind].used_at))
        return bool(unused)

    def _add_copy(self, nest: _PoolEntry, copy: ZygoteCopy) -> None:
        nest.was_warm = True
        if nest.spare is not None:
            # It was ended while it waited.
            nest.spare.close()
            self._drop_group(nest)
        nest.spare = copy
        if nest.waiting:
            return
        try:
            nest.spare_group = self._groups.create_unlimited()
            nest.spare_group.add_process(copy.init_pid)
            nest.spare_group.add_process(copy.plugin_pid)
        except OSError:
            # Its cage's own group will take it, or refuse it for a reason that somebody is told.
            self._drop_group(nest)

    def _drop_group(self, nest: _PoolEntry) -> None:
        """End a spare copy's group; it can be taken away once nobody is in it any more."""
        group, nest.spare_group = nest.spare_group, None
        if group is not None:
            group.kill()
            self._draining_cgroups.append(group)

    def _on_cage_settled(self, kind: ZygoteKey, nest: _PoolEntry, body: ZygoteCage, *, well: bool | None) -> None:
        """A body no longer is a matter of its zygote."""
        nest.living.discard(body)
        nest.unready.pop(body, None)
        with contextlib.suppress(ValueError):
            nest.waiting.remove(body)
        nest.used_at = time.monotonic()
        if well is not None:
            self._count_result(kind, well=well)

    def _count_result(self, kind: ZygoteKey, *, well: bool) -> None:
        self._failures[kind] = 0 if well else self._failures.get(kind, 0) + 1
        if self._failures[kind] >= MAX_CONSECUTIVE_FAILURES:
            self._cooldown_until[kind] = time.monotonic() + COOLDOWN_S
            self._failures[kind] = 0

    def _stop_zygote(self, kind: ZygoteKey) -> None:
        nest = self._entries.pop(kind)
        nest.zygote.stop()
        self._stopping.append(nest.zygote)
        for body in list(nest.waiting):
            body.fall_back_to_bwrap()
        if nest.spare is not None:
            nest.spare.close()
        self._drop_group(nest)


def _assign_spare(nest: _PoolEntry) -> None:
    """Give the spare copy to whoever waits longest."""
    while nest.spare is not None and nest.waiting:
        body = nest.waiting.popleft()
        if body.needs_copy:
            # Its group is the body's by now: `group` was asked for it.
            copy, nest.spare, nest.spare_group = nest.spare, None, None
            body.assign_copy(copy)


def _shadows_loaded_module(spec: CageSpec) -> bool:
    """Whether a file of the plugin would be imported in place of one that the zygote has loaded."""
    assert spec.python is not None
    script = spec.python.script
    # The worker is our own file, and looks for modules in the plugin's folders first.
    folder = Path(spec.directory if script == WORKER_SCRIPT else Path(script).parent)
    vendored = folder / "vendor"
    try:
        names = os.listdir(folder)  # noqa: PTH208
        if script == WORKER_SCRIPT and vendored.is_dir():
            names += os.listdir(vendored)  # noqa: PTH208
        return shadows_library(names)
    except OSError:
        return True
